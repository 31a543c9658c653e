// One of a few, each with a word and what it means.

import { freshId, h } from "../dom.js";

/** Make radio buttons of `options`, each with `name` and `says`; `value()` gives the chosen name. */
export function choice(legend, options, chosen, called = (name) => name) {
  const group = freshId("choice");
  const inputs = options.map(({ name }) =>
    h("input", { type: "radio", name: group, value: name, checked: name === chosen }),
  );
  const node = h(
    "fieldset",
    { class: "choice" },
    h("legend", {}, legend),
    options.map(({ name, says }, i) =>
      h(
        "label",
        {},
        inputs[i],
        h("span", {}, h("strong", {}, called(name)), h("small", {}, says)),
      ),
    ),
  );
  return { node, value: () => inputs.find((input) => input.checked)?.value ?? options[0].name };
}

const PRESETS = { fast: "Quick look", default: "Thorough" };

/** Choose how long to train. */
export function presetChoice(about) {
  return choice("How thoroughly?", about.presets, "fast", (name) => PRESETS[name] ?? name);
}
