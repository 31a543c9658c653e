// What a filled cell could be, shown beside it: on hover, focus or tap.

import { h, put } from "../dom.js";
import { barsOfLaw, histogramOfLaw } from "../plots/law.js";
import { between, cell, percent, sentence } from "../words.js";

const WIDTH = 300;
const [OPENING, CLOSING] = [120, 250];

/** Watch the filled cells in `area`; `load(row, column)` gives the law of one. */
export function watchCells(area, load, signal) {
  // Left before it began: nobody would take the card away.
  if (signal.aborted) return;
  const card = h("aside", {
    class: "law",
    hidden: true,
    "aria-live": "polite",
    "aria-label": "What this cell could be",
  });
  const laws = new Map();
  let [anchor, pinned, timer] = [null, false, 0];
  document.body.append(card);

  const inLater = (deed, delay) => {
    clearTimeout(timer);
    timer = setTimeout(deed, delay);
  };
  const close = () => {
    clearTimeout(timer);
    anchor?.classList.remove("shown");
    card.hidden = true;
    [anchor, pinned] = [null, false];
  };

  async function open(target) {
    clearTimeout(timer);
    if (anchor === target) return;
    close();
    anchor = target;
    anchor.classList.add("shown");
    const { row, column } = target.dataset;
    const key = `${row} ${column}`;
    if (!laws.has(key)) laws.set(key, load(Number(row), Number(column)));
    const waiting = () => anchor === target && show(h("p", { class: "soft" }, "Working it out…"));
    const slow = setTimeout(waiting, 150);
    let content;
    try {
      content = lawOf(await laws.get(key));
    } catch (problem) {
      laws.delete(key);
      content = [h("p", { class: "problem" }, problem.message)];
    }
    clearTimeout(slow);
    if (anchor === target) show(content);
  }

  function show(content) {
    const shut = h("button", { type: "button", class: "quiet shut", "aria-label": "Close" }, "×");
    shut.addEventListener("click", () => {
      const back = anchor;
      close();
      back?.focus();
      close();
    });
    put(card, shut, content);
    card.hidden = false;
    place(card, anchor);
  }

  const cellOf = (event) => event.target.closest?.(".filled-cell");
  const watch = (node, name, deed) => node.addEventListener(name, deed, { signal });
  watch(area, "pointerover", (event) => {
    const target = cellOf(event);
    if (target && event.pointerType === "mouse" && !pinned) inLater(() => open(target), OPENING);
  });
  watch(area, "pointerout", (event) => {
    if (cellOf(event) && event.pointerType === "mouse" && !pinned) inLater(close, CLOSING);
  });
  watch(card, "pointerenter", () => clearTimeout(timer));
  watch(card, "pointerleave", (event) => {
    if (event.pointerType === "mouse" && !pinned) inLater(close, CLOSING);
  });
  watch(area, "focusin", (event) => cellOf(event) && open(cellOf(event)));
  watch(area, "focusout", () => !pinned && inLater(close, CLOSING));
  watch(area, "click", (event) => {
    const target = cellOf(event);
    if (!target) return;
    open(target);
    pinned = true;
  });
  watch(document, "keydown", (event) => event.key === "Escape" && close());
  watch(document, "pointerdown", (event) => {
    if (!card.contains(event.target) && !cellOf(event)) close();
  });
  area.addEventListener("scroll", close, { capture: true, signal });
  signal.addEventListener("abort", () => {
    close();
    card.remove();
  });
}

/** Put the card below a cell, or above it where there is no room. */
function place(card, anchor) {
  const at = anchor.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - card.offsetWidth - 8));
  const below = at.bottom + 8 + card.offsetHeight < innerHeight;
  const top = below ? at.bottom + 8 : Math.max(at.top - 8 - card.offsetHeight, 8);
  card.style.setProperty("--left", `${left + scrollX}px`);
  card.style.setProperty("--top", `${top + scrollY}px`);
}

/** Give a law in words and as a picture. */
export function lawOf(law) {
  const title = h("p", { class: "of" }, `${law.name}, row ${law.row + 1}`);
  const plot = law.histogram ? histogramOfLaw(law, WIDTH) : law.bars && barsOfLaw(law, WIDTH);
  return [title, h("p", { class: "words" }, inWords(law)), plot];
}

function inWords({ interval, bars, value, observed }) {
  if (observed) return `Known: ${cell(value)}.`;
  if (interval) {
    const where = sentence(between(interval.low, interval.high, interval.level));
    return `${where}. Filled in: ${cell(value)}.`;
  }
  if (!bars) return `Filled in: ${cell(value)}.`;
  const sure = bars.find((bar) => bar.value === value)?.share;
  return sure === undefined
    ? `Filled in: ${cell(value)}.`
    : `Most probably ${cell(value)}: in ${percent(sure)} of such cases.`;
}
