// Where the truth was in what the model had said: flat if it is honest.

import { svg } from "../dom.js";
import { picture } from "./picture.js";
import { linear } from "./scale.js";

const [WIDTH, HEIGHT] = [200, 92];

/** Draw ten counts, with a band in which most of them should be. */
export function places(counts, name) {
  const level = counts.reduce((sum, each) => sum + each, 0) / counts.length;
  const around = 2 * Math.sqrt(level * (1 - 1 / counts.length));
  const y = linear(0, Math.max(...counts, level + around), HEIGHT - 18, 4);
  const wide = WIDTH / counts.length;
  const under = Math.max(level - around, 0);
  return picture(
    WIDTH,
    HEIGHT,
    `Where the truths of ${name} were`,
    `From lower than nearly all that was thought possible to higher: ${counts.join(", ")} cells. ` +
      `About ${Math.round(level)} each if it is honest.`,
    counts.map((each, i) =>
      svg("rect", {
        class: "likely",
        x: i * wide + 1,
        width: wide - 2,
        y: y(each),
        height: HEIGHT - 18 - y(each),
      }),
    ),
    svg("rect", {
      class: "ideal",
      x: 0,
      width: WIDTH,
      y: y(level + around),
      height: y(under) - y(level + around),
    }),
    svg("path", { class: "level", d: `M0 ${y(level)}H${WIDTH}` }),
    svg("text", { class: "small", x: 1, y: HEIGHT - 4 }, "too low"),
    svg("text", { class: "small", x: WIDTH - 1, y: HEIGHT - 4, "text-anchor": "end" }, "too high"),
  );
}
