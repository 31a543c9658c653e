// A field for a value of a column, of the sort that its kind needs.

import { freshId, h } from "../dom.js";
import { spoken } from "../words.js";

const FEW = 6;

/** Make a field, with a value to begin with; `read()` gives what was entered, "" where nothing was. */
export function valueField(column, label, { few = FEW, hint = column.legal, value = "" } = {}) {
  const { input, levels } = column;
  if (input === "level" && levels.length <= few) return radios(levels, label, value);
  const node = input === "level" ? levelSelect(levels, value) : typed(input, hint, value);
  return {
    node: h("label", { class: "field" }, h("span", {}, label), node),
    control: node,
    read: () => (input === "level" ? chosen(levels, node.value) : node.value.trim()),
  };
}

function typed(input, hint, value) {
  if (input === "date") return h("input", { type: "date", value });
  if (input === "datetime") return h("input", { type: "datetime-local", step: 1, value });
  // No number field: it swallows what it does not like, and the server says what is wrong.
  const text = { type: "text", inputmode: "decimal", autocomplete: "off", placeholder: hint };
  return h("input", { ...text, value });
}

function levelSelect(levels, value) {
  const at = levels.indexOf(value);
  return h(
    "select",
    { value: at < 0 ? "" : at },
    h("option", { value: "" }, ""),
    levels.map((level, i) => h("option", { value: i }, spoken(level))),
  );
}

function radios(levels, label, value) {
  const group = freshId("level");
  const inputs = levels.map((level, i) =>
    h("input", { type: "radio", name: group, value: i, checked: level === value }),
  );
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
