// A few numbers, large, with what they are.

import { h } from "../dom.js";

/** Lay out pairs of what a number is and the number. */
export function facts(told) {
  return h(
    "dl",
    { class: "facts" },
    told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}
