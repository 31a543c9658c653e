// A case: one question after another, and the prediction moving with the answers.

import { api } from "../api.js";
import { h, put, svg } from "../dom.js";
import { announce } from "../live.js";
import { inWords, predictionOf, shortly } from "../parts/prediction.js";
import { attempt, problemSlot, unfoldInvalid } from "../parts/problem.js";
import { answerForm, questionCard } from "../parts/question.js";
import { costFields, ruleFields, rulesInWords } from "../parts/settings.js";
import { listed, number, plural, spoken } from "../words.js";

export async function sessionView({ params: [id] }) {
  const first = await api.session(id);
  const model = await api.model(first.model);
  const columns = new Map(model.columns.map((column) => [column.name, column]));
  const targets = first.targets.map(predictionOf);
  const asked = h("div");
  const [other, said, record] = [h("div"), h("div"), h("div")];
  // Fields for all columns want the whole width.
  const settings = h("div", { class: "wide" });
  let most = 0;

  function show(session) {
    most = Math.max(most, ...gainsOf(session));
    put(
      asked,
      session.question ? questionCard(session, columns, most, moved) : stopSign(session),
      session.question && session.worthless && enough(),
      ...Object.values(session.doubts).map((doubt) => h("p", { class: "note" }, doubt)),
    );
    put(other, another(session, columns, moved));
    for (const target of targets) target.update(session);
    put(said, saidCard(session, moved));
    put(settings, settingsCard(session, changed));
    put(record, recordCard(session));
  }

  /** After an answer: say what became of it, and be ready for the next. */
  function moved(session) {
    show(session);
    announce(`${spokenState(session)} ${spokenQuestion(session)}`);
    const next = asked.querySelector("form input, form select") ?? asked.querySelector("h2");
    if (next.matches("h2")) next.tabIndex = -1;
    next.focus({ preventScroll: true });
  }

  function changed(session) {
    show(session);
    announce(`Changed. ${spokenQuestion(session)}`);
  }

  show(first);
  return h(
    "div",
    {},
    h("p", { class: "crumbs" }, h("a", { href: "#/ask" }, "Ask")),
    h("h1", {}, `Finding out ${listed(first.targets.map(({ name }) => name))}`),
    h(
      "div",
      { class: "dialogue" },
      asked,
      h("div", { class: "predictions" }, targets.map(({ node }) => node)),
      other,
    ),
    h("div", { class: "cards two" }, said, record, settings),
  );
}

function gainsOf({ question, history }) {
  const asked = question ? [question, ...question.others] : [];
  return [...asked, ...history].map(({ gain }) => gain ?? 0);
}

function spokenState({ predictions }) {
  return predictions.map((each) => `${each.target}: ${shortly(each)}. ${inWords(each)}`).join(" ");
}

function spokenQuestion({ question, stopped, doubts }) {
  if (question) return `Next question: ${question.columns.join(", ")}.`;
  return `Enough. ${stopped} ${restsOn(doubts)}`;
}

/** Say that what is doubted is part of it, too. */
function restsOn(doubts) {
  const names = Object.keys(doubts);
  if (!names.length) return "";
  const values = names.length > 1 ? "values that are" : "a value that is";
  return `But the prediction rests on ${values} doubted: ${listed(names)}.`;
}

function stopSign({ stopped, doubts }) {
  const doubted = restsOn(doubts);
  return h(
    "section",
    { class: "card stop" },
    svg(
      "svg",
      { class: "sign", viewBox: "0 0 48 48", "aria-hidden": "true" },
      svg("path", { d: "M15 3h18l12 12v18l-12 12h-18l-12-12v-18z" }),
      svg("path", { class: "bar", d: "M13 24h22" }),
    ),
    h(
      "div",
      {},
      h("h2", {}, "Enough"),
      h("p", {}, stopped),
      doubted && h("p", {}, h("strong", {}, doubted)),
    ),
  );
}

function enough() {
  return h(
    "p",
    { class: "note" },
    "No question that is left is expected to tell anything. You may stop here, or go on all the same.",
  );
}

/** Answer something that is not asked for, or correct an answer. */
function another(session, columns, moved) {
  const asked = new Set(session.question?.columns);
  const open = session.open.filter((name) => !asked.has(name));
  const known = Object.keys(session.known).filter((name) => columns.has(name));
  const said = new Set(session.history.map(({ column }) => column));
  const never = [...said].filter((name) => !session.open.includes(name) && !known.includes(name));
  if (!open.length && !known.length && !never.length) return null;
  const form = h("div");
  const group = (label, names) =>
    names.length > 0 &&
    h("optgroup", { label }, names.map((name) => h("option", { value: name }, name)));
  const select = h(
    "select",
    {},
    h("option", { value: "" }, "Choose a column"),
    group("Not known yet", open),
    group("Known, to be corrected", known),
    group("Cannot be measured, to be corrected", never),
  );
  select.addEventListener("change", () =>
    put(form, select.value && answerForm(session, [columns.get(select.value)], moved)),
  );
  return h(
    "details",
    { class: "card" },
    h("summary", {}, "Answer something else, or correct an answer"),
    h("label", { class: "field" }, "Column", select),
    form,
  );
}

const ANSWERS = { unknown: "not known for now", unmeasurable: "cannot be measured" };

function saidCard(session, moved) {
  const { id, history, given, aside } = session;
  const slot = problemSlot();
  const last = new Map(history.map(({ column }, i) => [column, i]));
  const counts = ({ column }, i) => last.get(column) === i;
  // What was not known for a while, and is answered by now, is not worth a line.
  const shown = history.filter((each, i) => counts(each, i) || each.answer !== "unknown");
  const now = history.filter(counts);
  const corrected = new Set(now.filter(({ answer }) => answer !== "unknown").map(({ column }) => column));
  const before = Object.entries(given);
  const undo = deed("Take back the last answer", !history.length, () => api.undo(id));
  const again = deed("Ask again for what was not known", false, () => api.again(id));

  function deed(text, disabled, wish) {
    const button = h("button", { type: "button", disabled }, text);
    button.addEventListener("click", async () => {
      const now = await attempt(button, slot, wish);
      if (now) moved(now);
    });
    return button;
  }

  return h(
    "section",
    { class: "card" },
    h("h2", {}, "What was said"),
    shown.length + before.length
      ? h(
          "ol",
          { class: "said" },
          before.map(([name, value]) => givenLine(name, value, corrected.has(name))),
          shown.map((each) => answerLine(each, now.includes(each))),
        )
      : h("p", { class: "soft" }, "Nothing yet."),
    h("p", { class: "soft" }, `${plural(now.length, "answer")}, ${number(session.spent)} spent.`),
    slot.node,
    h("div", { class: "buttons" }, undo, aside.length > 0 && again),
  );
}

function givenLine(name, value, corrected) {
  return line(name, spoken(value), corrected ? "known before, corrected" : "known before", corrected);
}

/** An answer with what was paid for it; one that was replaced is paid for where it was corrected. */
function answerLine({ column, answer, value, cost }, counts) {
  const paid = answer === "value" || cost > 0 ? `cost ${number(cost)}` : "";
  return line(column, ANSWERS[answer] ?? spoken(value), counts ? paid : "corrected", !counts);
}

function line(name, value, more, struck) {
  const words = [name, ": ", h("strong", {}, value)];
  return h("li", {}, struck ? h("s", {}, words) : words, more && h("small", {}, ` ${more}`));
}

function settingsCard(session, changed) {
  const slot = problemSlot();
  const known = new Set(Object.keys(session.known));
  const open = Object.entries(session.costs).filter(([name]) => !known.has(name));
  const costs = costFields(Object.fromEntries(open));
  const rules = ruleFields(session.rules, session.targets);
  const button = h("button", { type: "submit" }, "Use these");
  const form = h(
    "form",
    {},
    h("h3", {}, "What it costs to find out"),
    costs.node,
    h("h3", {}, "When it is enough"),
    rules.node,
    slot.node,
    h("div", { class: "buttons" }, button),
  );
  unfoldInvalid(form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const now = await attempt(button, slot, () =>
      api.settings(session.id, { costs: { ...session.costs, ...costs.read() }, rules: rules.read() }),
    );
    if (now) changed(now);
  });
  const said = rulesInWords(session.rules);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Costs and limits"),
    h("p", { class: "soft" }, said ? `Now: ${said}.` : "No limit is set: it asks until nothing is left."),
    h("details", {}, h("summary", {}, "Change them"), form),
  );
}

function recordCard({ id }) {
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "The record"),
    h("p", { class: "soft" }, "All questions, answers and predictions, as a file."),
    h(
      "div",
      { class: "buttons" },
      h("a", { class: "button", href: `/api/sessions/${id}/record.json`, download: true }, "JSON"),
      h("a", { class: "button", href: `/api/sessions/${id}/record.csv`, download: true }, "CSV"),
    ),
  );
}
