// A model that fills, in four views: the filled table, its columns, trust, downloads.

import { api } from "../api.js";
import { h } from "../dom.js";
import { grid } from "../parts/grid.js";
import { watchCells } from "../parts/law_card.js";
import { notesOf } from "../parts/notes.js";
import { legend } from "../plots/picture.js";
import { go } from "../router.js";
import { columnTab } from "./columns.js";
import { downloadTab } from "./downloads.js";
import { trustTab } from "./trust.js";

const TABS = [
  ["", "Filled table", filledTab],
  ["columns", "Columns", columnTab],
  ["trust", "Can it be trusted?", trustTab],
  ["download", "Download", downloadTab],
];
// As it was called once.
const OTHERS = { save: "download" };

export async function modelView({ params: [id, tab, detail], signal }) {
  const [model, notes] = await Promise.all([api.model(id), notesOf(id)]);
  if (model.task === "predict") {
    if (!signal.aborted) go(`/ask/${id}`, { replace: true });
    return null;
  }
  const table = model.table === null ? null : await api.table(model.table).catch(() => null);
  const tabs = table ? TABS : TABS.filter(([name]) => name === "download");
  const [shown, , view] = tabs.find(([name]) => name === (OTHERS[tab] ?? tab)) ?? tabs[0];
  return h(
    "div",
    {},
    h(
      "p",
      { class: "crumbs" },
      table
        ? h("a", { href: `#/table/${table.id}` }, "The table with its holes")
        : h("a", { href: "#/" }, "Start"),
    ),
    h("h1", {}, table ? `${model.name}, filled` : model.name),
    h("p", { class: "lead" }, model.summary),
    notes,
    !table &&
      h("p", { class: "note" }, "The table of this model is not here any more; the model itself is."),
    h(
      "nav",
      { class: "tabs", "aria-label": "Views of the filled table" },
      tabs.map(([name, text]) =>
        h(
          "a",
          { href: `#/model/${id}${name && `/${name}`}`, "aria-current": name === shown && "page" },
          text,
        ),
      ),
    ),
    await view({ model, table, detail, signal }),
  );
}

async function filledTab({ model, table, signal }) {
  const area = h(
    "div",
    {},
    grid({
      columns: table.columns,
      total: table.rows,
      load: (first, many) => api.filled(model.id, first, many),
      about: `Filled rows of ${table.name}`,
    }),
  );
  watchCells(area, (row, column) => api.cell(model.id, row, column), signal);
  return h(
    "section",
    { "aria-label": "Filled table" },
    h(
      "p",
      {},
      "Point at a filled cell, tap it, or move to it with the tab and arrow keys, to see what " +
        "else it could be.",
    ),
    legend([
      ["filled", "filled in: bold, with a mark in the corner"],
      ["plain", "known, and unchanged"],
    ]),
    area,
  );
}
