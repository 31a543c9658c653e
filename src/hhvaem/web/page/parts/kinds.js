// The columns of a table: what each was taken for, a way to change it, and where its holes are.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { announce } from "../live.js";
import { percent, plural } from "../words.js";
import { orderDialog } from "./order.js";
import { attempt, problemSlot } from "./problem.js";
import { strip } from "./strip.js";

/** Show the columns; `changed` is called with the table after a kind was changed. */
export function kindsTable(table, map, about, changed) {
  const list = h("ul");
  const says = new Map(about.kinds.map((kind) => [kind.name, kind.says]));
  let current = table;

  function show() {
    put(list, current.columns.map(entry));
  }

  function entry(column) {
    const slot = problemSlot();
    const select = h(
      "select",
      { "aria-label": `Kind of ${column.name}`, value: column.kind },
      options(column).map((kind) => h("option", { value: kind }, called(kind, says))),
    );
    select.addEventListener("change", () =>
      attempt(select, slot, () => change(column, select), () => select),
    );
    return h(
      "li",
      { class: column.kind === "ignored" ? "left-out" : null },
      h("strong", { class: "name", title: column.name }, column.name),
      select,
      strip(map.bands, current.rows, column.index, column.name, column.missing),
      h("span", { class: "number" }, missing(column, current.rows)),
      h("span", { class: "values" }, values(column)),
      // Why a column is left as it is stands above the list.
      column.note && !column.problem && h("p", { class: "why" }, column.note),
      slot.node,
    );
  }

  async function change(column, select) {
    try {
      const said = await saidWith(current, column, select.value);
      if (said === null) {
        select.value = column.kind;
        return;
      }
      current = await api.setKinds(current.id, said);
    } catch (problem) {
      select.value = column.kind;
      throw problem;
    }
    show();
    list.children[column.index].querySelector("select").focus();
    const { kind } = current.columns[column.index];
    announce(`${column.name} is taken for ${called(kind, says)} now.`);
    changed(current);
  }

  show();
  return h(
    "div",
    { class: "scroll columns", role: "region", "aria-label": "Columns", tabindex: "0" },
    // Each entry says by itself what it is, to those who hear it.
    h(
      "div",
      { class: "heads", "aria-hidden": "true" },
      ["column", "taken for", "holes, by row", "missing", "values"].map((text) =>
        h("span", { class: text === "missing" ? "number" : null }, text),
      ),
    ),
    list,
  );
}

function missing(column, rows) {
  return [
    column.missing ? percent(column.missing / rows) : "none",
    h("span", { class: "spelt" }, " missing"),
  ];
}

/** Of a constant column the kind is not among those to choose from. */
function options(column) {
  return column.kinds.includes(column.kind) ? column.kinds : [column.kind, ...column.kinds];
}

const CALLED = {
  real: "any number",
  positive: "number from 0",
  count: "whole number",
  binary: "two levels",
  categorical: "levels",
  ordinal: "levels in order",
  datetime: "date",
  constant: "always the same",
  ignored: "left as it is",
};

function called(kind, says) {
  return CALLED[kind] ?? says.get(kind) ?? kind;
}

function values(column) {
  if (column.problem) return null;
  return column.level_count > 6 ? plural(column.level_count, "level") : column.values;
}

/** What is to be said of all columns where one becomes another kind; null where nobody goes on. */
async function saidWith(table, column, kind) {
  // No plain objects until all is gathered: `__proto__` is a name of a column like others.
  const [kinds, orders] = [new Map(), new Map()];
  for (const other of table.columns) {
    if (other.index === column.index) continue;
    if (isOrdered(other)) orders.set(other.name, other.levels);
    else if (other.kind !== other.inferred) kinds.set(other.name, other.kind);
  }
  if (kind === "ordinal" && column.storage === "text" && !column.ordered) {
    const levels = column.levels ?? (await asLevels(table, column, kinds, orders));
    const order = await orderDialog(column.name, levels);
    if (order === null) return null;
    orders.set(column.name, order);
  } else kinds.set(column.name, kind);
  return wish(kinds, orders);
}

function wish(kinds, orders) {
  return { kinds: Object.fromEntries(kinds), orders: Object.fromEntries(orders) };
}

/** Levels of a column that was left as it is are not known yet. */
async function asLevels(table, column, kinds, orders) {
  const asked = new Map(kinds).set(column.name, "categorical");
  const told = await api.setKinds(table.id, wish(asked, orders));
  return told.columns[column.index].levels;
}

function isOrdered({ kind, storage, levels, level_count: many }) {
  return kind === "ordinal" && storage === "text" && levels && levels.length === many;
}
