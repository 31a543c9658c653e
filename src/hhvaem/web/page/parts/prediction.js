// What is predicted now, and how it moved with the answers.

import { drawnToFit, h, put } from "../dom.js";
import { intervalHistory, shareHistory } from "../plots/history.js";
import { asTable } from "../plots/picture.js";
import { linear } from "../plots/scale.js";
import { between, ends, percent, sentence, spoken, within } from "../words.js";

/** Show a target; `update(session)` moves it. */
export function predictionOf(target) {
  const value = h("p", { class: "value" });
  const words = h("p", { class: "words" });
  const now = target.classes ? classBars(target) : band(target);
  const history = h("div", { class: "figure" });
  const table = h("div");
  return {
    node: h(
      "section",
      { class: "card prediction", "aria-label": `Prediction of ${target.name}` },
      h("h2", {}, target.name),
      value,
      words,
      now.node,
      history,
      table,
    ),
    update(session) {
      const steps = stepsOf(session, target.name);
      const { prediction } = steps.at(-1);
      value.textContent = shortly(prediction);
      words.textContent = inWords(prediction);
      now.update(prediction, steps[0].prediction);
      const moved = steps.length > 1;
      put(
        history,
        moved && h("h3", {}, "How it moved"),
        moved &&
          drawnToFit(h("div"), (width) =>
            target.classes
              ? shareHistory(steps, width, target.name)
              : intervalHistory(steps, target.span, width, target.name),
          ),
      );
      put(table, moved && asTable(["after", "prediction", "which means"], steps.map(row)));
    },
  };
}

function row({ label, prediction }) {
  return [label, shortly(prediction), inWords(prediction)];
}

/** All predictions of a target from the start on, each with what was said before it. */
function stepsOf({ start, history }, name) {
  const own = (predictions) => predictions.find(({ target }) => target === name);
  const said = history.filter(({ answer }) => answer === "value");
  return [
    { label: "At the start", prediction: own(start) },
    ...said.map(({ column, value, predictions }) => ({
      label: `${column}: ${spoken(value)}`,
      prediction: own(predictions),
    })),
  ];
}

/** Say the prediction in a word. */
export function shortly({ value, shares, low, high }) {
  return shares ? spoken(value) : within(value, low, high);
}

/** Say how sure it is. */
export function inWords({ value, low, high, level, shares }) {
  if (!shares) return `${sentence(between(low, high, level))}.`;
  const share = shares.find((each) => each.value === value)?.share ?? 0;
  return `“${spoken(value)}” in ${percent(share)} of such cases.`;
}

/** An interval on an axis that stays the same, so that it is seen to move. */
function band(target) {
  const before = h("span", { class: "before" });
  const reach = h("span", { class: "reach" });
  const dot = h("span", { class: "dot" });
  const axis = h("div", { class: "ends", "aria-hidden": "true" });
  const track = h("div", { class: "track", role: "img" }, before, reach, dot);
  return {
    node: h("div", { class: "band" }, track, axis),
    update(prediction, start) {
      const [least, most] = target.span ?? [start.low, start.high];
      const low = Math.min(least, start.low, prediction.low);
      const high = Math.max(most, start.high, prediction.high);
      const x = linear(low, high, 0, 100);
      const lay = (node, from, to) => {
        node.style.left = `${x(from)}%`;
        node.style.width = `${x(to) - x(from)}%`;
      };
      lay(before, start.low, start.high);
      lay(reach, prediction.low, prediction.high);
      dot.style.left = `${x(prediction.value)}%`;
      track.setAttribute("aria-label", inWords(prediction));
      const [left, right] = ends(low, high);
      const moved = start.low !== prediction.low || start.high !== prediction.high;
      const about = moved && h("span", {}, "dashed: at the start");
      put(axis, h("span", {}, left), about, h("span", {}, right));
    },
  };
}

/** A bar for each class. */
function classBars(target) {
  const rows = target.classes.map((label) => ({
    label,
    bar: h("span", { class: "bar" }),
    text: h("span", { class: "share" }),
  }));
  return {
    node: h(
      "ul",
      { class: "classes" },
      rows.map(({ label, bar, text }) =>
        h("li", {}, h("span", { class: "name" }, spoken(label)), h("span", { class: "room" }, bar), text),
      ),
    ),
    update({ shares }) {
      for (const { label, bar, text } of rows) {
        const share = shares.find(({ value }) => value === label)?.share ?? 0;
        bar.style.width = `${100 * share}%`;
        text.textContent = percent(share);
      }
    },
  };
}
