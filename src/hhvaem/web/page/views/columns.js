// One column: what is known of it against what is filled in.

import { api } from "../api.js";
import { drawnToFit, h } from "../dom.js";
import { comparison } from "../plots/compare.js";
import { asTable, legend } from "../plots/picture.js";
import { go } from "../router.js";
import { cell, count, percent, plural } from "../words.js";

export async function columnTab({ model, table, detail }) {
  const columns = table.columns.filter(({ kind }) => kind !== "ignored" && kind !== "constant");
  if (!columns.length) return h("p", {}, "No column of this table was filled by a model.");
  // First a column in which there is something to see.
  const first = columns.find(({ missing }) => missing > 0) ?? columns[0];
  const chosen = columns.find(({ index }) => String(index) === detail) ?? first;
  const plot = await api.column(model.id, chosen.index);
  const at = columns.indexOf(chosen);
  return h(
    "section",
    { "aria-label": "Columns" },
    h(
      "div",
      { class: "choose" },
      h(
        "label",
        { class: "field" },
        "Column",
        h(
          "select",
          { value: chosen.index, onchange: (event) => show(model, event.target.value) },
          columns.map(({ index, name, missing }) =>
            h("option", { value: index }, missing ? `${name} (${plural(missing, "hole")})` : name),
          ),
        ),
      ),
      step("Back", model, columns[at - 1]),
      step("Next", model, columns[at + 1]),
    ),
    h("p", {}, inWords(plot)),
    legend([
      ["known", "known cells"],
      plot.drawn && [plot.labels ? "drawn-bar" : "drawn", "filled cells, as they could be"],
    ].filter(Boolean)),
    drawnToFit(h("div", { class: "figure" }), (width) => comparison(plot, width)),
    plot.drawn &&
      h(
        "p",
        { class: "soft" },
        "Filled cells need not look like the known ones: rows with holes may be different. But where " +
          "they lie far off, look at the column again.",
      ),
    numbers(plot),
  );
}

function show(model, index) {
  go(`/model/${model.id}/columns/${index}`, { replace: true });
}

function step(text, model, column) {
  const props = { type: "button", class: "quiet", disabled: !column };
  return h("button", { ...props, onclick: () => show(model, column.index) }, text);
}

function inWords({ name, counts }) {
  if (!counts.filled) return `All ${count(counts.observed)} cells of ${name} are known.`;
  return (
    `Of ${name}, ${plural(counts.observed, "cell is", "cells are")} known and ` +
    `${plural(counts.filled, "was", "were")} filled in.`
  );
}

function numbers(plot) {
  const names = plot.labels
    ? plot.labels.map((label) => (label === null ? "other" : cell(label)))
    : plot.observed.map((_, i) => `${cell(plot.edges[i])} to ${cell(plot.edges[i + 1])}`);
  const head = ["", "known", "filled, as they could be", "filled, single values"];
  return asTable(
    head,
    names.map((name, i) => [
      name,
      ...[plot.observed, plot.drawn, plot.filled].map((part) => (part ? percent(part[i]) : "–")),
    ]),
  );
}
