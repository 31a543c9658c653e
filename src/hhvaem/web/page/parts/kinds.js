// The columns of a table: what each was taken for, a way to change it, and where its holes are.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { announce } from "../live.js";
import { percent, plural } from "../words.js";
import { orderDialog } from "./order.js";
import { problemSlot } from "./problem.js";
import { strip } from "./strip.js";

/** Show the columns; `changed` is called with the table after a kind was changed. */
export function kindsTable(table, map, about, changed) {
  const body = h("tbody");
  const says = new Map(about.kinds.map((kind) => [kind.name, kind.says]));
  let current = table;

  function show() {
    put(body, current.columns.map(row));
  }

  function row(column) {
    const slot = problemSlot();
    const select = h(
      "select",
      { "aria-label": `Kind of ${column.name}`, value: column.kind },
      options(column).map((kind) => h("option", { value: kind }, called(kind, says))),
    );
    select.addEventListener("change", () => change(column, select, slot));
    return h(
      "tr",
      { class: column.kind === "ignored" ? "left-out" : null },
      h("th", { scope: "row" }, h("span", { class: "name", title: column.name }, column.name)),
      h("td", {}, select, slot.node),
      h(
        "td",
        { class: "holes" },
        strip(map.bands, current.rows, column.index, column.name, column.missing),
      ),
      h("td", { class: "number" }, column.missing ? percent(column.missing / current.rows) : "none"),
      h("td", { class: "remark" }, remark(column)),
    );
  }

  async function change(column, select, slot) {
    slot.clear();
    select.disabled = true;
    try {
      const said = await saidWith(current, column, select.value);
      if (said === null) {
        select.value = column.kind;
        return;
      }
      current = await api.setKinds(current.id, said);
      show();
      body.rows[column.index].querySelector("select").focus();
      announce(`${column.name} is taken for ${current.columns[column.index].kind} now.`);
      changed(current);
    } catch (problem) {
      select.value = column.kind;
      slot.show(problem);
    } finally {
      select.disabled = false;
    }
  }

  show();
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Columns", tabindex: "0" },
    h(
      "table",
      { class: "columns" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "column"),
          h("th", { scope: "col" }, "taken for"),
          h("th", { scope: "col" }, "holes, from the first row to the last"),
          h("th", { scope: "col", class: "number" }, "missing"),
          h("th", { scope: "col" }, "values"),
        ),
      ),
      body,
    ),
  );
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

function remark(column) {
  // Why stands above the table, where there is room for it.
  if (column.problem) return null;
  return [
    column.level_count > 6 ? plural(column.level_count, "level") : column.values,
    column.note && h("span", { class: "why" }, column.note),
  ];
}

/** What is to be said of all columns where one becomes another kind; null where nobody goes on. */
async function saidWith(table, column, kind) {
  const [kinds, orders] = [{}, {}];
  for (const other of table.columns) {
    if (other.index === column.index) continue;
    if (isOrdered(other)) orders[other.name] = other.levels;
    else if (other.kind !== other.inferred) kinds[other.name] = other.kind;
  }
  if (kind === "ordinal" && column.storage === "text" && !column.ordered) {
    const levels = column.levels ?? (await asLevels(table, column, kinds, orders));
    const order = await orderDialog(column.name, levels);
    if (order === null) return null;
    orders[column.name] = order;
  } else kinds[column.name] = kind;
  return { kinds, orders };
}

/** Levels of a column that was left as it is are not known yet. */
async function asLevels(table, column, kinds, orders) {
  const said = { kinds: { ...kinds, [column.name]: "categorical" }, orders };
  const told = await api.setKinds(table.id, said);
  return told.columns[column.index].levels;
}

function isOrdered({ kind, storage, levels, level_count: many }) {
  return kind === "ordinal" && storage === "text" && levels && levels.length === many;
}
