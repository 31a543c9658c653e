// The next question: what it would tell, what it costs, why it is asked, and a way to answer.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { asTable } from "../plots/picture.js";
import { listed, number, plural, spoken } from "../words.js";
import { valueField } from "./fields.js";
import { inWords, shortly } from "./prediction.js";
import { Mistake, attempt, problemSlot } from "./problem.js";

/**
 * Show a question.
 *
 * `columns` are those of the model by name; `most` is the largest gain so far, which fills the bar;
 * `answered` is called with the session after an answer.
 */
export function questionCard(session, columns, most, answered) {
  const { question } = session;
  // Of a group, what is known already is not asked for again.
  const asked = question.columns.filter((name) => session.open.includes(name));
  return h(
    "section",
    { class: "card question", "aria-label": "Next question" },
    h("p", { class: "eyebrow" }, "Next question"),
    h("h2", {}, title(question, asked)),
    h("p", {}, tellsNothing(question) ? nothing(question, session.targets) : question.reason),
    gainBar(question, most, session.unit),
    h("p", {}, h("small", {}, `${FULL} ${NATS}`)),
    answerForm(session, asked.map((name) => columns.get(name)), answered),
    why(session.id, asked[0]),
    others(question),
  );
}

function title(question, asked) {
  return asked.length === 1 ? `What is ${asked[0]}?` : `What are ${listed(asked)}?`;
}

/** Whether what a question would tell is nothing in the digits that are shown. */
function tellsNothing({ gain }) {
  return gain !== null && gain < 0.005;
}

function nothing({ others: rest }, targets) {
  const about = listed(targets.map(({ name }) => name));
  return rest.length
    ? `Of ${rest.length + 1} questions none is expected to tell much about ${about}; this one comes first.`
    : `It is all that can be asked, and is not expected to tell much about ${about}.`;
}

// What the bar and its number mean.
const FULL = "A full bar is the most that a question was expected to tell in this case so far.";
const NATS =
  "Nats say how much less unsure the prediction would be: 0.69 nats would settle an even " +
  "yes-or-no question.";

function gainBar(question, most, unit) {
  const { gain, error, cost } = question;
  const bar = h("span", { class: "bar" });
  const empty = gain === null || tellsNothing(question);
  bar.style.width = `${empty ? 0 : Math.max((100 * gain) / most, 1.5)}%`;
  const give = error === null ? "" : ` ± ${error.toFixed(2)}`;
  const told = gain === null ? "not known" : `${Math.max(gain, 0).toFixed(2)}${give} ${unit}`;
  return h(
    "dl",
    { class: "worth" },
    h(
      "div",
      {},
      h("dt", {}, "It would tell"),
      h("dd", {}, h("span", { class: "room", "aria-hidden": "true" }, bar), told),
    ),
    h("div", {}, h("dt", {}, "It costs"), h("dd", {}, number(cost))),
  );
}

/** Fields for some columns, with what is known of them, and the ways to answer. */
export function answerForm({ id, known, open }, columns, answered) {
  const slot = problemSlot();
  const values = new Map(Object.entries(known));
  const fields = columns.map((column) => [
    column,
    valueField(column, labelOf(column, columns), { hint: "", value: values.get(column.name) }),
  ]);
  const told = h("button", { type: "submit", class: "main" }, "Answer");
  const unknown = h("button", { type: "button" }, "I do not know");
  const never = h("button", { type: "button" }, "Cannot be measured");
  const isOpen = columns.some(({ name }) => open.includes(name));
  const isKnown = columns.some(({ name }) => values.has(name));

  async function say(button, answers) {
    let asked;
    await attempt(
      button,
      slot,
      async () => {
        let session;
        // One after the other: each answer is told with what is known by then.
        for (const answer of answers()) {
          asked = answer.column;
          session = await api.answer(id, answer);
        }
        answered(session);
      },
      () => fields.find(([{ name }]) => name === asked)[1].control,
    );
  }

  const all = (answer) => () => columns.map(({ name }) => ({ column: name, answer }));
  const form = h(
    "form",
    {},
    fields.map(([, field]) => field.node),
    slot.node,
    h("div", { class: "buttons" }, told, isOpen && unknown, (isOpen || isKnown) && never),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    say(told, () => entered(fields));
  });
  unknown.addEventListener("click", () => say(unknown, all("unknown")));
  never.addEventListener("click", () => say(never, all("unmeasurable")));
  return form;
}

function labelOf(column, all) {
  const legal = column.input === "number" ? `, ${column.legal}` : "";
  return all.length === 1 ? `Your answer${legal}` : `${column.name}${legal}`;
}

function entered(fields) {
  const given = fields
    .map(([{ name }, field]) => ({ column: name, answer: "value", value: field.read() }))
    .filter(({ value }) => value !== "");
  if (!given.length) {
    const [[, first]] = fields;
    throw new Mistake("Enter a value, or choose one of the other answers.", first.control);
  }
  return given;
}

function why(id, column) {
  const body = h("div");
  const slot = problemSlot();
  const node = h(
    "details",
    {},
    h("summary", {}, "What would the answer change?"),
    slot.node,
    body,
  );
  node.addEventListener(
    "toggle",
    async () => {
      put(body, h("p", { class: "soft" }, "Working it out…"));
      try {
        put(body, changes(await api.explain(id, column)));
      } catch (problem) {
        put(body);
        slot.show(problem);
      }
    },
    { once: true },
  );
  return node;
}

function changes({ column, now, answers }) {
  const rows = [
    ["As it is now", now],
    ...answers.map(({ value, predictions }) => [`If ${column} were ${spoken(value)}`, predictions]),
  ];
  return h(
    "ul",
    { class: "changes" },
    rows.map(([text, predictions]) =>
      h(
        "li",
        {},
        h("span", {}, text),
        predictions.map((each) =>
          // Of a class, the words say which.
          h("span", {}, each.shares ? null : h("strong", {}, `${shortly(each)} `), inWords(each)),
        ),
      ),
    ),
  );
}

function others({ others: rest }) {
  if (!rest.length) return null;
  const table = asTable(
    ["question", "would tell", "costs"],
    rest.map(({ name, gain, cost }) => [
      name,
      gain === null ? "not known" : Math.max(gain, 0).toFixed(2),
      number(cost),
    ]),
  );
  table.firstChild.textContent = `${plural(rest.length, "other question")} that could be asked`;
  return table;
}
