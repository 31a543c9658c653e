// Rows of a table, a page at a time, in a box that scrolls by itself.

import { h, put } from "../dom.js";
import { cell, count, number } from "../words.js";
import { attempt, problemSlot } from "./problem.js";
import { moveByArrows } from "./roving.js";

const ROWS = 20;

/**
 * Show a table.
 *
 * `columns` have a `name` and a `kind`; `load(first, count)` gives `rows` and maybe `filled`, of
 * each row which columns were; `about` names the table for screen readers.
 */
export function grid({ columns, total, load, about }) {
  const body = h("tbody");
  const box = h(
    "div",
    { class: "scroll grid", role: "region", "aria-label": about, tabindex: "0" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { class: "row", scope: "col" }, "row"), columns.map(head))),
      body,
    ),
  );
  moveByArrows(body, ".filled-cell");
  const slot = problemSlot();
  const where = h("span", { role: "status" });
  const jump = h("input", { type: "number", min: 1, max: total, inputmode: "numeric" });
  const buttons = {
    first: turn("First", () => 0),
    back: turn("Back", (first) => first - ROWS),
    next: turn("Next", (first) => first + ROWS),
    last: turn("Last", () => Math.floor((total - 1) / ROWS) * ROWS),
  };
  let first = 0;

  function turn(text, to) {
    const button = h("button", { type: "button", class: "quiet" }, text);
    button.addEventListener("click", () => attempt(button, slot, () => show(to(first))));
    return button;
  }

  async function show(wanted) {
    const start = Math.max(0, Math.min(wanted, total - 1));
    const { rows, filled } = await load(start, ROWS);
    first = start;
    put(body, rows.map((row, i) => line(row, start + i, columns, filled?.[i])));
    const one = body.querySelector(".filled-cell");
    if (one) one.tabIndex = 0;
    where.textContent = `Rows ${count(start + 1)} to ${count(start + rows.length)} of ${count(total)}`;
    // After `attempt` has given the button back.
    setTimeout(() => {
      buttons.first.disabled = buttons.back.disabled = start === 0;
      buttons.next.disabled = buttons.last.disabled = start + ROWS >= total;
    });
  }

  const form = h(
    "form",
    { class: "jump" },
    h("label", {}, "Row ", jump),
    h("button", { type: "submit", class: "quiet" }, "Go"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = Math.round(Number(jump.value)) - 1;
    if (jump.value) attempt(form.lastElementChild, slot, () => show(wanted));
  });
  attempt(buttons.next, slot, () => show(0));
  return h(
    "div",
    { class: "paged" },
    box,
    slot.node,
    total > ROWS &&
      h(
        "div",
        { class: "pager" },
        h("div", { class: "turn" }, Object.values(buttons)),
        where,
        form,
      ),
  );
}

function head({ name, kind }) {
  return h(
    "th",
    { scope: "col", class: isNumber(kind) ? "number" : null },
    h("span", { class: "name", title: name }, name),
  );
}

function isNumber(kind) {
  return kind === "real" || kind === "positive" || kind === "count";
}

function line(row, index, columns, filled) {
  const marked = new Set(filled);
  return h(
    "tr",
    {},
    h("th", { class: "row", scope: "row" }, count(index + 1)),
    row.map((value, j) => {
      const side = isNumber(columns[j].kind) ? "number" : "";
      if (marked.has(j)) return filledCell(value, index, j, columns[j], side);
      if (value === null) {
        return h("td", { class: `hole ${side}` }, h("span", { class: "unseen" }, "missing"));
      }
      const text = typeof value === "number" ? String(value) : cell(value);
      return h("td", { class: side }, h("span", { class: "text", title: long(text) }, text));
    }),
  );
}

function long(text) {
  return text.length > 24 ? text : null;
}

function filledCell(value, row, j, column, side) {
  const text = typeof value === "number" ? number(value) : cell(value);
  return h(
    "td",
    { class: `filled ${side}` },
    h(
      "button",
      {
        type: "button",
        class: "filled-cell",
        tabindex: "-1",
        "data-row": row,
        "data-column": j,
        "aria-label": `${text}, filled in: ${column.name}, row ${row + 1}`,
      },
      text,
    ),
  );
}
