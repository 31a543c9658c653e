// Before the first question: what is known of the case, what questions cost, when to stop.

import { api } from "../api.js";
import { h } from "../dom.js";
import { valueField } from "../parts/fields.js";
import { notesOf } from "../parts/notes.js";
import { attempt, namedIn, problemSlot, unfoldInvalid } from "../parts/problem.js";
import { costFields, ruleFields } from "../parts/settings.js";
import { go } from "../router.js";
import { listed } from "../words.js";

// With more columns than this, one looks for a name.
const MANY = 16;

export async function setupView({ params: [id] }) {
  const [model, notes] = await Promise.all([api.model(id), notesOf(id)]);
  if (model.task === "fill") {
    go(`/model/${id}`, { replace: true });
    return null;
  }
  const targets = listed(model.targets.map(({ name }) => name));
  const columns = model.columns.filter(({ modelled }) => modelled);
  // A list for levels: buttons for all of them would be a wall.
  const fields = columns.map((column) => [column.name, valueField(column, column.name, { few: 0 })]);
  const costs = costFields(Object.fromEntries(columns.map(({ name, cost }) => [name, cost])));
  const rules = ruleFields({}, model.targets);
  const slot = problemSlot();
  const button = h("button", { type: "submit", class: "main" }, "Ask the first question");
  const form = h(
    "form",
    {},
    h(
      "section",
      { class: "card" },
      h("h2", {}, "What is known already?"),
      h("p", { class: "soft" }, "Leave empty what is not. You may also begin with nothing."),
      columns.length > MANY && filter(fields),
      h("div", { class: "fields" }, fields.map(([, field]) => field.node)),
    ),
    h(
      "details",
      { class: "card" },
      h("summary", {}, "What does it cost to find out?"),
      h(
        "p",
        { class: "soft" },
        "In money, minutes or trouble, all in the same unit. Everything costs 1 where you say " +
          "nothing. How they compare decides what is asked first; limits count in the same unit.",
      ),
      costs.node,
    ),
    h(
      "details",
      { class: "card" },
      h("summary", {}, "When is it enough?"),
      h("p", { class: "soft" }, "Leave all empty to decide as you go."),
      rules.node,
    ),
    slot.node,
    h("div", { class: "buttons" }, button),
  );
  unfoldInvalid(form);
  const entered = () => fields.filter(([, field]) => field.read() !== "");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const begin = async () => {
      const session = await api.newSession({
        model: id,
        known: Object.fromEntries(entered().map(([name, field]) => [name, field.read()])),
        costs: costs.read(),
        rules: rules.read(),
      });
      go(`/session/${session.id}`);
    };
    attempt(button, slot, begin, (problem) =>
      namedIn(problem, entered().map(([name, field]) => [name, field.control])),
    );
  });
  return h(
    "div",
    { class: "narrow" },
    h("p", { class: "crumbs" }, h("a", { href: "#/ask" }, "Ask")),
    h("h1", {}, `A new case: finding out ${targets}`),
    notes,
    form,
    h(
      "p",
      { class: "soft" },
      `${model.summary} `,
      "The model itself, for Python and the command line: ",
      h("a", { href: `/api/models/${id}/file`, download: true }, model.file),
    ),
  );
}

function filter(fields) {
  const input = h("input", { type: "search" });
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const [name, field] of fields) field.node.hidden = !name.toLowerCase().includes(wanted);
  });
  return h("label", { class: "field" }, "Find a column", input);
}
