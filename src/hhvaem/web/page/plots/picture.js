// What every picture has: a name and a description for those who do not see it.

import { freshId, h, svg } from "../dom.js";

/** Make a picture of some width and height. */
export function picture(width, height, title, description, ...children) {
  const [name, about] = [freshId("title"), freshId("desc")];
  return svg(
    "svg",
    {
      class: "plot",
      role: "img",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "aria-labelledby": `${name} ${about}`,
    },
    svg("title", { id: name }, title),
    svg("desc", { id: about }, description),
    ...children,
  );
}

/** Give the numbers of a picture as a table, folded away. */
export function asTable(head, rows) {
  return h(
    "details",
    { class: "numbers" },
    h("summary", {}, "The same as a table"),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text) => h("td", {}, text))))),
      ),
    ),
  );
}

/** Say which mark is what. */
export function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map(([mark, text]) =>
      h("li", {}, h("span", { class: `mark ${mark}`, "aria-hidden": "true" }), text),
    ),
  );
}
