// Forms that start to train.

import { api } from "../api.js";
import { h } from "../dom.js";
import { go } from "../router.js";
import { presetChoice } from "./choice.js";
import { attempt, problemSlot } from "./problem.js";

/** Start a model that fills a table. */
export function fillForm(table, about) {
  const preset = presetChoice(about);
  return form("Fill the holes", [preset.node], () => ({
    table: table.id,
    wish: { task: "fill", preset: preset.value() },
  }));
}

// Kinds of columns that nothing can be learned to predict of.
const NO_TARGETS = ["ignored", "constant", "datetime"];
const TRYING = ". Before a model is used for decisions, train a thorough one";

/** Start a model that predicts a column of a table, and can be asked about it. */
export function askForm(table, about) {
  const preset = presetChoice(about, TRYING);
  const columns = table.columns.filter(({ kind }) => !NO_TARGETS.includes(kind));
  const target = h(
    "select",
    { required: true },
    h("option", { value: "" }, "Choose a column"),
    columns.map(({ name }) => h("option", { value: name }, name)),
  );
  const fields = [h("label", { class: "field" }, "What is to be found out?", target), preset.node];
  return form("Train it to ask", fields, () => ({
    table: table.id,
    wish: { task: "predict", preset: preset.value(), targets: [target.value] },
  }));
}

function form(text, fields, wished) {
  const slot = problemSlot();
  const button = h("button", { type: "submit", class: "main" }, text);
  const node = h("form", {}, fields, slot.node, h("div", { class: "buttons" }, button));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(button, slot, async () => {
      const { table, wish } = wished();
      const job = await api.start(table, wish);
      go(`/job/${job.id}`);
    });
  });
  return node;
}
