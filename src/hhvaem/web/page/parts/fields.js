// A field for a value of a column, of the sort that its kind needs.

import { freshId, h } from "../dom.js";
import { spoken } from "../words.js";

const FEW = 6;

/** Make a field; `read()` gives what was entered, "" where nothing was. */
export function valueField(column, label, { few = FEW, hint = column.legal } = {}) {
  const { input, levels } = column;
  if (input === "level" && levels.length <= few) return radios(levels, label);
  const node = input === "level" ? levelSelect(levels) : typed(input, hint);
  return {
    node: h("label", { class: "field" }, h("span", {}, label), node),
    control: node,
    read: () => (input === "level" ? chosen(levels, node.value) : node.value.trim()),
  };
}

function typed(input, hint) {
  if (input === "date") return h("input", { type: "date" });
  if (input === "datetime") return h("input", { type: "datetime-local", step: 1 });
  // No number field: it swallows what it does not like, and the server says what is wrong.
  return h("input", { type: "text", inputmode: "decimal", autocomplete: "off", placeholder: hint });
}

function levelSelect(levels) {
  return h(
    "select",
    {},
    h("option", { value: "" }, ""),
    levels.map((level, i) => h("option", { value: i }, spoken(level))),
  );
}

function radios(levels, label) {
  const group = freshId("level");
  const inputs = levels.map((_, i) => h("input", { type: "radio", name: group, value: i }));
  return {
    node: h(
      "fieldset",
      { class: "levels", role: "radiogroup" },
      h("legend", {}, label),
      h(
        "div",
        {},
        levels.map((level, i) => h("label", {}, inputs[i], h("span", {}, spoken(level)))),
      ),
    ),
    control: inputs[0],
    read: () => chosen(levels, inputs.find((input) => input.checked)?.value ?? ""),
  };
}

function chosen(levels, index) {
  return index === "" ? "" : levels[Number(index)];
}
