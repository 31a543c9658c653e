// The start: a table from a file, or the example; and what is there already.

import { api } from "../api.js";
import { h } from "../dom.js";
import { entry, section, underWay } from "../parts/entries.js";
import { fileFields } from "../parts/file.js";
import { removeButton } from "../parts/remove.js";
import { go } from "../router.js";
import { ago, count, listed, plural } from "../words.js";

export async function startView({ signal }) {
  const [about, state] = await Promise.all([api.about(), api.state()]);
  return h(
    "div",
    { class: "start" },
    h(
      "section",
      { class: "hero" },
      h("h1", {}, "Fill the holes in a table"),
      h(
        "p",
        { class: "lead" },
        "It learns what the columns have to do with each other, fills what is missing, and says of " +
          "every filled cell how sure it is.",
      ),
    ),
    h(
      "section",
      { class: "card", "aria-label": "A table" },
      fileFields(about, signal, ({ id }) => go(`/table/${id}`)),
    ),
    h(
      "p",
      {},
      "Rather find out one thing about a new case? ",
      h("a", { href: "#/ask" }, "Let the page ask you"),
      " for what is worth knowing.",
    ),
    ...owned(about, state),
  );
}

/** Sections of what this browser has made before, each only where there is something. */
function owned(about, state) {
  const fills = state.models.filter(({ task }) => task === "fill");
  const predicts = state.models.filter(({ task }) => task === "predict");
  return [
    underWay(state.jobs),
    section("Filled tables", fills.map(modelEntry)),
    section("Models to ask", predicts.map(askEntry)),
    section("Tables", state.tables.map(tableEntry)),
    state.models.length > 0 &&
      h("p", { class: "soft" }, "Finished models are kept in ", h("code", {}, about.kept_in), "."),
  ];
}

function modelEntry(model) {
  const about = model.rows === null ? model.file : `${plural(model.rows, "row")}, ${ago(model.created)}`;
  const remove = removeButton(`the model of ${model.name}`, () => api.removeModel(model.id), reload);
  return entry(`#/model/${model.id}`, model.name, about, !model.served && remove);
}

function askEntry(model) {
  const targets = listed(model.targets.map(({ name }) => name));
  const remove = removeButton(`the model of ${targets}`, () => api.removeModel(model.id), reload);
  const from = model.served ? "given at the start" : `from ${model.name}, ${ago(model.created)}`;
  return entry(`#/ask/${model.id}`, targets, from, !model.served && remove);
}

function tableEntry(table) {
  const about =
    `${plural(table.rows, "row")}, ${plural(table.columns_count, "column")}, ` +
    `${count(table.cells_missing)} holes, ${ago(table.created)}`;
  const remove = removeButton(table.name, () => api.removeTable(table.id), reload);
  return entry(`#/table/${table.id}`, table.name, about, remove);
}

function reload() {
  go("/", { replace: true });
}
