// Begin to ask: a model that is there, or a new one from a table.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { entry, section, underWay } from "../parts/entries.js";
import { fileFields } from "../parts/file.js";
import { attempt, problemSlot } from "../parts/problem.js";
import { removeButton } from "../parts/remove.js";
import { askForm } from "../parts/train.js";
import { go } from "../router.js";
import { ago, listed, plural, spoken } from "../words.js";

export async function chooseView({ signal }) {
  const [about, state] = await Promise.all([api.about(), api.state()]);
  const models = state.models.filter(({ task }) => task === "predict");
  const names = new Map(models.map((model) => [model.id, targetsOf(model)]));
  return h(
    "div",
    { class: "narrow" },
    h(
      "section",
      { class: "hero" },
      h("h1", {}, "Ask for what is worth knowing"),
      h(
        "p",
        { class: "lead" },
        "Of a new case little is known. The page predicts what you want to find out, says how " +
          "sure it is, and asks for the value that would tell most for its cost.",
      ),
    ),
    section("Ask about a new case", models.map(modelEntry)),
    section("Go on with a case", state.sessions.map((session) => sessionEntry(session, names))),
    underWay(state.jobs),
    await newModel(about, state, signal),
  );
}

function targetsOf(model) {
  return listed(model.targets.map(({ name }) => name));
}

function modelEntry(model) {
  const from = model.served ? `given at the start, ${model.name}` : `from ${model.name}, ${ago(model.created)}`;
  return entry(`#/ask/${model.id}`, targetsOf(model), from);
}

function sessionEntry(session, names) {
  const name = names.get(session.model) ?? listed(session.targets);
  const remove = removeButton(`the case about ${name}`, () => api.removeSession(session.id), () =>
    go("/ask", { replace: true }),
  );
  const about = `begun ${ago(session.created)}. ${known(session)}`;
  return entry(`#/session/${session.id}`, name, about, remove);
}

// Of so many values a case is told by.
const TOLD = 4;

function known(session) {
  const values = Object.entries(session.known).map(([name, value]) => `${name}: ${spoken(value)}`);
  if (!values.length) return "Nothing is known yet.";
  const rest = values.length - TOLD;
  return `Known: ${values.slice(0, TOLD).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}.`;
}

async function newModel(about, state, signal) {
  const form = h("div");
  const slot = problemSlot();
  const look = h("a", {}, "Look at its columns first");
  const show = async (id) => {
    look.href = `#/table/${id}`;
    put(form, askForm(await api.table(id), about));
  };
  const select = h(
    "select",
    {},
    state.tables.map(({ id, name, rows, created }) =>
      h("option", { value: id }, `${name} (${plural(rows, "row")}, ${ago(created)})`),
    ),
  );
  select.addEventListener("change", () => attempt(select, slot, () => show(select.value)));
  // The newest table is the one that is shown.
  const files = fileFields(about, signal, () => go("/ask", { replace: true }));
  if (!state.tables.length) {
    return h(
      "section",
      { class: "card apart" },
      h("h2", {}, "First it learns from a table"),
      h("p", { class: "soft" }, "One that has what you want to find out among its columns."),
      files,
    );
  }
  await show(state.tables[0].id);
  return h(
    "section",
    { class: "card apart" },
    h("h2", {}, "Learn from a table"),
    h("label", { class: "field" }, "Table", select),
    h("p", {}, look),
    h("details", {}, h("summary", {}, "Another table"), files),
    slot.node,
    form,
  );
}
