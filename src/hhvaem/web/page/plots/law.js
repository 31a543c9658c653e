// The predictive law of a cell: a histogram of a number, bars of levels.

import { svg } from "../dom.js";
import { between, cell, cut, ends, percent } from "../words.js";
import { picture } from "./picture.js";
import { asNumber, linear } from "./scale.js";

const HEIGHT = 116;
const [TOP, BOTTOM] = [8, 34];

/** Draw a law of a number in some width. */
export function histogramOfLaw({ histogram, interval, value, name }, width) {
  const { edges, shares } = histogram;
  const places = edges.map(asNumber);
  const x = linear(places[0], places.at(-1), 2, width - 2);
  const y = linear(0, Math.max(...shares), HEIGHT - BOTTOM, TOP);
  const [low, high] = [asNumber(interval.low), asNumber(interval.high)];
  const bars = shares.map((share, i) => {
    const middle = (places[i] + places[i + 1]) / 2;
    const inside = middle >= low && middle <= high;
    const [left, right] = [x(places[i]), x(places[i + 1])];
    return svg("rect", {
      class: inside ? "likely" : "unlikely",
      x: left + 0.5,
      width: Math.max(right - left - 1, 0.5),
      y: y(share),
      height: HEIGHT - BOTTOM - y(share),
    });
  });
  const base = HEIGHT - BOTTOM + 6;
  return picture(
    width,
    HEIGHT,
    `What ${name} could be`,
    `A histogram: ${between(interval.low, interval.high, interval.level)}.`,
    bars,
    svg("path", { class: "bracket", d: bracket(x(low), x(high), base) }),
    value === null ? null : svg("path", { class: "value", d: upright(x(asNumber(value))) }),
    endLabels(x(low), x(high), ...ends(interval.low, interval.high), base + 19, width),
  );
}

function upright(x) {
  return `M${x} ${TOP - 6}V${HEIGHT - BOTTOM}`;
}

function bracket(from, to, y) {
  return `M${from} ${y - 4}v8M${from} ${y}H${to}M${to} ${y - 4}v8`;
}

/** Write both ends of the bracket, at the sides where they would meet. */
function endLabels(from, to, low, high, y, width) {
  const letters = 7.2 * (low.length + high.length + 2);
  const apart = to - from > letters;
  const [left, right] = apart ? [from, to] : [Math.max((from + to - letters) / 2, 2), 0];
  const second = apart ? right : Math.min(left + letters, width - 2);
  return [
    svg("text", { x: Math.max(left, 2), y, "text-anchor": "start" }, low),
    svg("text", { x: Math.min(second, width - 2), y, "text-anchor": "end" }, high),
  ];
}

const ROW = 22;

/** Draw how probable each of some values is. */
export function barsOfLaw({ bars, rest, value, name }, width) {
  const shown = bars.filter(({ share }) => share >= 0.0005).slice(0, 12);
  const left = 1 - shown.reduce((sum, { share }) => sum + share, 0);
  const rows = left > 0.005 || rest > 0 ? [...shown, { value: undefined, share: left }] : shown;
  const room = Math.min(Math.max(...rows.map((row) => label(row).length)) * 7.4 + 8, width * 0.45);
  const x = linear(0, Math.max(...rows.map(({ share }) => share)), 0, width - room - 54);
  return picture(
    width,
    rows.length * ROW + 4,
    `What ${name} could be`,
    rows.map((row) => `${label(row)}: ${percent(row.share)}`).join("; "),
    rows.map((row, i) => {
      const y = i * ROW + 2;
      return svg(
        "g",
        {},
        svg(
          "text",
          { x: room - 8, y: y + 15, "text-anchor": "end" },
          cut(label(row), Math.floor(room / 7.4)),
        ),
        svg("rect", {
          class: row.value === value ? "likely" : "unlikely",
          x: room,
          y: y + 3,
          width: Math.max(x(row.share), 1),
          height: ROW - 7,
        }),
        svg("text", { x: room + x(row.share) + 6, y: y + 15 }, percent(row.share)),
      );
    }),
  );
}

function label({ value }) {
  return value === undefined ? "other" : cell(value);
}
