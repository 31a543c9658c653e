// Where a column has holes, as a strip: all rows from left to right.

import { svg } from "../dom.js";
import { percent } from "../words.js";

/** Draw the strip of a column; `bands` are what the server tells of the map of missingness. */
export function strip(bands, rows, column, name, missing) {
  const node = svg(
    "svg",
    {
      class: "strip",
      viewBox: `0 0 ${rows} 1`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Where ${name} has holes: ${percent(missing / rows)} of its cells`,
    },
    bands
      .filter((band) => band.missing[column] > 0)
      .map((band) =>
        svg("rect", {
          class: "hole",
          x: band.first,
          width: band.rows,
          y: 0,
          height: 1,
          // Half a band of holes must still be seen.
          opacity: Math.min(0.25 + 0.75 * band.missing[column], 1),
        }),
      ),
  );
  return node;
}
