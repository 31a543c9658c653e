// What is known of a column against what is filled in.

import { svg } from "../dom.js";
import { cell, cut, percent } from "../words.js";
import { picture } from "./picture.js";
import { asNumber, linear, ticks } from "./scale.js";

const [TOP, BOTTOM, LEFT] = [10, 30, 44];

/** Draw the shares of a column's cells; `plot` is what the server tells of it. */
export function comparison(plot, width) {
  return plot.labels ? ofLevels(plot, width) : ofNumbers(plot, width);
}

function summary({ name, counts }) {
  return `${name}: ${counts.observed} known cells against ${counts.filled ?? 0} filled ones. The ` +
    "table below has the numbers.";
}

function ofNumbers(plot, width) {
  const height = 260;
  const places = plot.edges.map(asNumber);
  const x = linear(places[0], places.at(-1), LEFT, width - 6);
  const most = Math.max(...plot.observed, ...(plot.drawn ?? []), 0.01);
  const y = linear(0, most, height - BOTTOM, TOP);
  const dates = typeof plot.edges[0] !== "number";
  const marks = dates ? dateMarks(plot.edges, width) : ticks(places[0], places.at(-1), width / 90);
  return picture(
    width,
    height,
    `How the cells of ${plot.name} lie`,
    summary(plot),
    ticks(0, most, 4).map((share) => [
      svg("path", { class: "grid", d: `M${LEFT} ${y(share)}H${width - 6}` }),
      svg("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
    ]),
    plot.observed.map((share, i) =>
      svg("rect", {
        class: "known",
        x: x(places[i]) + 0.5,
        width: Math.max(x(places[i + 1]) - x(places[i]) - 1, 0.5),
        y: y(share),
        height: height - BOTTOM - y(share),
      }),
    ),
    plot.drawn && svg("path", { class: "drawn", d: outline(plot.drawn, places, x, y) }),
    marks.map((mark, i) =>
      svg(
        "text",
        {
          x: x(asNumber(mark)),
          y: height - 8,
          "text-anchor": dates && i === marks.length - 1 ? "end" : dates && i === 0 ? "start" : "middle",
        },
        cell(mark),
      ),
    ),
  );
}

function dateMarks(edges, width) {
  const days = edges.map((edge) => edge.slice(0, 10));
  const middle = days[Math.floor(days.length / 2)];
  return width > 420 ? [days[0], middle, days.at(-1)] : [days[0], days.at(-1)];
}

function outline(shares, places, x, y) {
  const steps = shares.map((share, i) => `V${y(share)}H${x(places[i + 1])}`);
  return `M${x(places[0])} ${y(0)}${steps.join("")}V${y(0)}`;
}

const ROW = 38;

function ofLevels(plot, width) {
  const labels = plot.labels.map((label) => (label === null ? "other" : cell(label)));
  const longest = Math.max(...labels.map((text) => text.length));
  const room = Math.min(longest * 7.4 + 12, width * 0.4);
  const most = Math.max(...plot.observed, ...(plot.drawn ?? []), 0.01);
  const x = linear(0, most, 0, width - room - 66);
  const bar = (kind, share, top) => [
    svg("rect", { class: kind, x: room, y: top, width: Math.max(x(share), 1), height: 13 }),
    svg("text", { class: "small", x: room + x(share) + 6, y: top + 11 }, percent(share)),
  ];
  return picture(
    width,
    labels.length * ROW,
    `How often each level of ${plot.name} occurs`,
    summary(plot),
    labels.map((text, i) => {
      const top = i * ROW + 4;
      return svg(
        "g",
        {},
        svg("title", {}, text),
        svg(
          "text",
          { x: room - 10, y: top + 18, "text-anchor": "end" },
          cut(text, Math.floor((room - 10) / 7.2)),
        ),
        bar("known", plot.observed[i], top),
        plot.drawn && bar("drawn-bar", plot.drawn[i], top + 14),
      );
    }),
  );
}
