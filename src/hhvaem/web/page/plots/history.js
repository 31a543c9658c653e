// How a prediction moved, answer by answer, from top to bottom.

import { svg } from "../dom.js";
import { between, cut, number, percent, spoken } from "../words.js";
import { picture } from "./picture.js";
import { linear, ticks } from "./scale.js";

const WIDE = 460;

/** Draw intervals of a number; `steps` have a `label` and a `prediction`. */
export function intervalHistory(steps, span, width, name) {
  const { room, row, above } = layout(steps, width);
  const ends = steps.flatMap(({ prediction }) => [prediction.low, prediction.high]);
  const [low, high] = [Math.min(...ends, ...(span ?? [])), Math.max(...ends, ...(span ?? []))];
  const x = linear(low, high, room + 8, width - 14);
  const height = steps.length * row + 26;
  return picture(
    width,
    height,
    `How the prediction of ${name} moved`,
    steps.map(({ label, prediction: p }) => `${label}: ${number(p.value)}, ` +
      between(p.low, p.high, p.level)).join("; "),
    ticks(low, high, (width - room) / 80).map((mark) => [
      svg("path", { class: "grid", d: `M${x(mark)} 0V${height - 22}` }),
      svg("text", { x: x(mark), y: height - 6, "text-anchor": "middle" }, number(mark)),
    ]),
    steps.map(({ label, prediction }, i) => {
      const y = i * row + (above ? 30 : row / 2);
      const [from, to] = [x(prediction.low), x(prediction.high)];
      return svg(
        "g",
        { class: i === steps.length - 1 ? "step now" : "step" },
        stepLabel(label, i * row, { room, row, above, width }),
        svg("path", { class: "reach", d: `M${from} ${y}H${to}` }),
        svg("circle", { cx: x(prediction.value), cy: y, r: 5 }),
      );
    }),
  );
}

/** Draw shares of classes, each step a bar of all. */
export function shareHistory(steps, width, name) {
  const { room, row, above } = layout(steps, width);
  const start = room + 8;
  const x = linear(0, 1, 0, width - start - 6);
  return picture(
    width,
    steps.length * row + 4,
    `How the prediction of ${name} moved`,
    steps.map(({ label, prediction }) => `${label}: ` + prediction.shares
      .map(({ value, share }) => `${spoken(value)} ${percent(share)}`).join(", ")).join("; "),
    steps.map(({ label, prediction }, i) => {
      const top = i * row + (above ? 20 : 6);
      let sum = 0;
      return svg(
        "g",
        { class: i === steps.length - 1 ? "step now" : "step" },
        stepLabel(label, i * row, { room, row, above, width }),
        prediction.shares.map(({ value, share }, k) => {
          const left = start + x(sum);
          sum += share;
          const text = `${spoken(value)} ${percent(share)}`;
          return [
            svg(
              "rect",
              { class: `part part-${k % 6}`, x: left, y: top, width: x(share), height: 18 },
              svg("title", {}, text),
            ),
            x(share) > text.length * 7.4 + 8 &&
              svg("text", { class: "on-part", x: left + 6, y: top + 13.5 }, text),
          ];
        }),
      );
    }),
  );
}

/** Labels stand at the left, or above their bars where there is little room. */
function layout(steps, width) {
  const above = width < WIDE;
  const longest = Math.max(...steps.map(({ label }) => label.length));
  const room = above ? 0 : Math.min(longest * 7.2 + 10, width * 0.38);
  return { above, room, row: above ? 44 : 32 };
}

function stepLabel(label, top, { room, row, above, width }) {
  const most = Math.floor((above ? width : room) / 7.2);
  const place = above ? { x: 8, y: top + 14 } : { x: 0, y: top + row / 2 + 4 };
  return svg("text", place, svg("title", {}, label), cut(label, most));
}
