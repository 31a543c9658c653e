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
// From the click to the end, which is longer than training alone.
const QUICK = "for a first look, in about a minute; large tables take longer";

/** Choose how long to train; `caution` is said of the quick way, too. */
export function presetChoice(about, caution = "") {
  const presets = about.presets.map(({ name, says }) => ({
    name,
    says: name === "fast" ? `${QUICK}${caution}` : says,
  }));
  return choice("How thoroughly?", presets, "fast", (name) => PRESETS[name] ?? name);
}
