// How the loss falls while a model learns.

import { svg } from "../dom.js";
import { number } from "../words.js";
import { picture } from "./picture.js";
import { linear } from "./scale.js";

const HEIGHT = 64;
const FEW = 12;

/** Draw losses in the order in which they came. */
export function sparkline(losses, width) {
  const sorted = [...losses].sort((a, b) => a - b);
  // The first steps are far above all others, and would press them flat.
  const high = sorted[Math.floor((losses.length < FEW ? 1 : 0.92) * (sorted.length - 1))];
  const x = linear(0, Math.max(losses.length - 1, 1), 3, width - 6);
  const y = linear(sorted[0], Math.max(high, sorted[0] + 1e-9), HEIGHT - 6, 6);
  const points = losses.map((loss, i) => [x(i), y(Math.min(loss, high))]);
  const [lastX, lastY] = points.at(-1);
  return picture(
    width,
    HEIGHT,
    "How the loss falls",
    `From ${number(losses[0])} to ${number(losses.at(-1))}; lower is better.`,
    svg("path", { class: "under", d: `M3 ${HEIGHT}${line(points, "L")}L${lastX} ${HEIGHT}Z` }),
    svg("path", { class: "spark", d: line(points, "M") }),
    svg("circle", { class: "now", cx: lastX, cy: lastY, r: 3.5 }),
  );
}

function line(points, first) {
  return points.map(([x, y], i) => `${i ? "L" : first}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}
