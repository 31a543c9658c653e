// Where a column has holes, as a strip: all rows from left to right.

import { svg } from "../dom.js";
import { percent } from "../words.js";

const SHADES = 5;

/** Draw the strip of a column; `bands` are what the server tells of the map of missingness. */
export function strip(bands, rows, column, name, missing) {
  return svg(
    "svg",
    {
      class: "strip",
      viewBox: `0 0 ${rows} 1`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Where ${name} has holes: ${percent(missing / rows)} of its cells`,
    },
    [...byShade(bands, column)].map(([shade, path]) =>
      svg("path", { class: "hole", d: path, opacity: shade }),
    ),
  );
}

/** Put bands that are about as full of holes together: hundreds of columns have few shapes then. */
function byShade(bands, column) {
  const paths = new Map();
  for (const { first, rows, missing } of bands) {
    if (!missing[column]) continue;
    // A single hole in a band must still be seen.
    const shade = 0.25 + 0.75 * (Math.ceil(SHADES * missing[column]) / SHADES);
    paths.set(shade, `${paths.get(shade) ?? ""}M${first} 0h${rows}v1h${-rows}z`);
  }
  return paths;
}
