// A table before it is filled: its holes, its columns, its rows, and what to do with it.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { facts } from "../parts/facts.js";
import { grid } from "../parts/grid.js";
import { kindsTable } from "../parts/kinds.js";
import { askForm, fillForm } from "../parts/train.js";
import { count, percent, plural } from "../words.js";

const BANDS = 120;
// More columns that are left as they are than this are folded away.
const SHOWN = 5;

export async function tableView({ params: [id] }) {
  const [about, table, map, state] = await Promise.all([
    api.about(),
    api.table(id),
    api.map(id, BANDS),
    api.state(),
  ]);
  const notes = h("div");
  const rows = h("div");
  const asking = h("div");

  function show(now) {
    put(
      notes,
      now.notes.map((note) => h("p", { class: "note" }, note)),
      refused(now.columns),
    );
    put(
      rows,
      grid({
        columns: now.columns,
        total: now.rows,
        load: (first, many) => api.rows(id, first, many),
        about: `Rows of ${now.name}`,
      }),
    );
    put(asking, askForm(now, about));
  }

  show(table);
  return h(
    "div",
    {},
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "All tables")),
    h("h1", {}, table.name),
    facts([
      ["rows", count(table.rows)],
      ["columns", count(table.columns_count)],
      ["holes", count(table.cells_missing)],
      ["of all cells", percent(table.share_missing)],
    ]),
    notes,
    h(
      "div",
      { class: "with-aside" },
      h(
        "div",
        {},
        h("h2", {}, "Columns"),
        h(
          "p",
          { class: "soft" },
          "What each column was taken for. Change it where it is wrong. Blue marks in the strips are holes.",
        ),
        kindsTable(table, map, about, show),
      ),
      h(
        "aside",
        { "aria-label": "What to do with the table" },
        already(table, state),
        h(
          "section",
          { class: "card" },
          h("h2", {}, "Fill the holes"),
          h(
            "p",
            { class: "soft" },
            "A model learns from all that is known, and fills the rest. What is known stays as it is.",
          ),
          fillForm(table, about),
        ),
        h(
          "details",
          { class: "card" },
          h("summary", {}, "Or ask about a new case"),
          h(
            "p",
            { class: "soft" },
            "A model learns to predict one column, and then asks for what is worth knowing.",
          ),
          asking,
        ),
      ),
    ),
    h("h2", {}, "Rows"),
    h("p", { class: "soft" }, "Hatched cells are missing."),
    rows,
  );
}

/** Columns that cannot be used as they are, and why. */
function refused(columns) {
  const left = columns.filter(({ problem }) => problem);
  if (!left.length) return null;
  return h(
    "details",
    { class: "note refused", open: left.length <= SHOWN },
    h("summary", {}, `Left as ${left.length === 1 ? "it is" : "they are"}, and why`),
    h(
      "ul",
      { class: "plain" },
      left.map(({ problem }) => h("li", {}, problem)),
    ),
  );
}

/** What was made of this table before, or is being made. */
function already(table, state) {
  const jobs = state.jobs.filter(
    (job) => job.table === table.id && (job.state === "running" || job.state === "waiting"),
  );
  const models = state.models.filter((model) => model.table === table.id);
  if (!jobs.length && !models.length) return null;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Made of this table"),
    h(
      "ul",
      { class: "plain" },
      jobs.map((job) => h("li", {}, h("a", { href: `#/job/${job.id}` }, "Training is under way"))),
      models.map((model) =>
        model.task === "fill"
          ? h("li", {}, h("a", { href: `#/model/${model.id}` }, "The filled table"))
          : h(
              "li",
              {},
              h("a", { href: `#/ask/${model.id}` }, `Ask about ${model.targets[0].name}`),
            ),
      ),
    ),
    models.length > 1 && h("p", { class: "soft" }, plural(models.length, "model"), "."),
  );
}
