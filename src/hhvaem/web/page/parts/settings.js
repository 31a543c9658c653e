// What questions cost, and when enough has been asked.

import { h } from "../dom.js";
import { plural } from "../words.js";
import { Mistake } from "./problem.js";

/** Fields for the cost of each of some names; `read()` gives all of them. */
export function costFields(costs) {
  const inputs = Object.entries(costs).map(([name, cost]) => [
    name,
    h("input", { type: "number", min: 0, step: "any", value: cost }),
  ]);
  return {
    node: h(
      "div",
      { class: "fields" },
      inputs.map(([name, input]) => h("label", { class: "field" }, h("span", {}, name), input)),
    ),
    read: () => Object.fromEntries(inputs.map(([name, input]) => [name, Number(input.value || 1)])),
  };
}

/** Fields for the rules to stop by; `read()` gives those that are filled in. */
export function ruleFields(rules, targets) {
  const classes = targets.some((target) => target.classes);
  const numbers = targets.some((target) => !target.classes);
  const field = (name, label, value, more = {}) => {
    const input = h("input", { type: "number", min: 0, step: "any", value, ...more });
    return [name, input, h("label", { class: "field" }, h("span", {}, label), input)];
  };
  const fields = [
    field("most", "Ask at most so many questions", rules.most, { step: 1, min: 1 }),
    field("budget", "Spend at most", rules.budget),
    field("least", "Leave out what tells less, in nats for each unit of cost", rules.least, {
      placeholder: "0.02",
    }),
    classes &&
      field("sure", "Enough when a class is this probable", rules.sure, {
        max: 1,
        placeholder: "0.95",
      }),
    numbers &&
      field("edges", "Enough when it surely lies on one side of", (rules.edges ?? []).join(", "), {
        type: "text",
        inputmode: "decimal",
      }),
  ].filter(Boolean);
  return {
    node: h("div", { class: "fields" }, fields.map(([, , node]) => node)),
    /** Of each rule its name, as the server's sentences have it, and its field. */
    controls: fields.map(([name, input]) => [name, input]),
    read() {
      const given = fields.filter(([, input]) => input.value.trim() !== "");
      return Object.fromEntries(
        given.map(([name, input]) => [name, name === "edges" ? edges(input) : Number(input.value)]),
      );
    },
  };
}

function edges(input) {
  const values = input.value.split(/[\s,;]+/).filter(Boolean).map(Number);
  if (values.some(Number.isNaN)) {
    throw new Mistake("Give a number to lie on one side of, or several with commas between them.", input);
  }
  return values;
}

/** Say what rules there are. */
export function rulesInWords(rules) {
  const said = [];
  if (rules.most) said.push(`at most ${plural(rules.most, "question")}`);
  if (rules.budget) said.push(`at most ${rules.budget} spent`);
  if (rules.least) said.push(`nothing that tells less than ${rules.least} nats for each unit of cost`);
  if (rules.sure) said.push(`until a class has a probability of ${rules.sure}`);
  if (rules.edges?.length) said.push(`until it lies on one side of ${rules.edges.join(", ")}`);
  return said.join("; ");
}
