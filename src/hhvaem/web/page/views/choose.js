// Begin to ask: a model that is there, or a new one from a table.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { attempt, problemSlot } from "../parts/problem.js";
import { askForm } from "../parts/train.js";
import { removeButton } from "../parts/remove.js";
import { go } from "../router.js";
import { ago, listed, plural } from "../words.js";

export async function chooseView() {
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
    models.length > 0 &&
      h(
        "section",
        {},
        h("h2", {}, "Ask about a new case"),
        h("ul", { class: "entries" }, models.map(modelEntry)),
      ),
    state.sessions.length > 0 &&
      h(
        "section",
        {},
        h("h2", {}, "Go on with a case"),
        h("ul", { class: "entries" }, state.sessions.map((session) => sessionEntry(session, names))),
      ),
    await newModel(about, state),
  );
}

function targetsOf(model) {
  return listed(model.targets.map(({ name }) => name));
}

function modelEntry(model) {
  return h(
    "li",
    {},
    h("a", { href: `#/ask/${model.id}` }, targetsOf(model)),
    h(
      "span",
      { class: "soft" },
      model.served ? `given at the start, ${model.name}` : `from ${model.name}, ${ago(model.created)}`,
    ),
  );
}

function sessionEntry(session, names) {
  const name = names.get(session.model) ?? listed(session.targets);
  const remove = removeButton(`the case about ${name}`, () => api.removeSession(session.id), () =>
    go("/ask", { replace: true }),
  );
  return h(
    "li",
    {},
    h("a", { href: `#/session/${session.id}` }, name),
    h("span", { class: "soft" }, `${plural(session.answers, "answer")}, ${ago(session.changed)}`),
    h("span", { class: "more" }, remove),
  );
}

async function newModel(about, state) {
  const form = h("div");
  const slot = problemSlot();
  const show = async (id) => put(form, askForm(await api.table(id), about));
  const select = h(
    "select",
    {},
    state.tables.map(({ id, name, rows }) => h("option", { value: id }, `${name} (${plural(rows, "row")})`)),
  );
  select.addEventListener("change", () => attempt(select, slot, () => show(select.value)));
  const example = h("button", { type: "button" }, "Use the example");
  example.addEventListener("click", () =>
    attempt(example, slot, async () => {
      await api.example();
      go("/ask", { replace: true });
    }),
  );
  if (state.tables.length) await show(state.tables[0].id);
  return h(
    "section",
    { class: "card apart" },
    h("h2", {}, state.tables.length ? "Learn from a table" : "First it learns from a table"),
    state.tables.length
      ? h("label", { class: "field" }, "Table", select)
      : [
          h("p", { class: "soft" }, "One that has what you want to find out among its columns."),
          h(
            "div",
            { class: "buttons" },
            h("a", { class: "button main", href: "#/" }, "Choose a file"),
            example,
          ),
        ],
    slot.node,
    form,
  );
}
