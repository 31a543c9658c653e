// Can the fills be trusted? Known cells are hidden, filled, and compared with the truth.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { choice } from "../parts/choice.js";
import { attempt, problemSlot } from "../parts/problem.js";
import { progressCard } from "../parts/progress.js";
import { reportOf } from "../parts/report.js";

const HIDDEN = {
  mcar: "By chance",
  mar: "Depending on other columns",
  mnar: "High values more often",
  patterns: "As in the table itself",
};

export async function trustTab({ model, table, signal }) {
  const [about, state] = await Promise.all([api.about(), api.state()]);
  const box = h("section", { "aria-label": "Can it be trusted?" });
  const latest = state.jobs.find(
    (job) => job.task === "evaluate" && job.table === table.id && job.preset === model.preset,
  );

  async function show(job) {
    if (signal.aborted) return;
    if (job?.state === "done") {
      const again = h("button", { type: "button" }, "Check in another way");
      again.addEventListener("click", () => show(null));
      put(box, await reportOf(job), h("div", { class: "buttons" }, again));
    } else if (job?.state === "running" || job?.state === "waiting") {
      put(box, h("div", { class: "card narrow" }, progressCard(job, { signal, ended: show })));
    } else {
      put(box, invitation({ model, table, about, started: show, before: job }));
    }
  }

  await show(latest);
  return box;
}

function invitation({ model, table, about, started, before }) {
  const ways = about.mechanisms;
  const how = choice("How are cells hidden?", ways, ways[0].name, (name) => HIDDEN[name] ?? name);
  const slot = problemSlot();
  const button = h("button", { type: "submit", class: "main" }, "Check the fills");
  const form = h(
    "form",
    { class: "card narrow" },
    h("h2", {}, "Nobody has to believe it"),
    h(
      "p",
      {},
      "Some cells that are known are hidden, filled again by a model that never saw them, and " +
        "compared with the truth, beside other methods. It says of each column whether its fills " +
        "can be trusted. This takes a few times as long as filling the table.",
    ),
    how.node,
    slot.node,
    h("div", { class: "buttons" }, button),
  );
  if (before?.state === "failed") slot.show(before.error);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wish = { task: "evaluate", preset: model.preset ?? "fast", how: how.value() };
    attempt(button, slot, async () => started(await api.start(table.id, wish)));
  });
  return form;
}
