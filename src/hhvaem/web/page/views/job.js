// A job: training, or a report, until it is done.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { announce } from "../live.js";
import { titleOf } from "../parts/entries.js";
import { progressCard } from "../parts/progress.js";
import { reportOf } from "../parts/report.js";
import { go } from "../router.js";

export async function jobView({ params: [id], signal }) {
  const job = await api.job(id);
  const box = h("section", { class: "card" });

  function ended(last) {
    if (signal.aborted) return;
    if (last.state === "done") {
      announce("Finished.");
      go(shownAt(last), { replace: true });
      return;
    }
    put(box, outcome(last));
    box.querySelector("[role=alert]").focus();
  }

  if (job.state === "done" && job.task !== "evaluate") {
    // Who has gone elsewhere meanwhile is not called back.
    if (!signal.aborted) go(shownAt(job), { replace: true });
    return null;
  }
  if (job.state === "done") put(box, await reportOf(job));
  else if (job.state === "failed" || job.state === "cancelled") put(box, outcome(job));
  else put(box, progressCard(job, { signal, ended }));
  return h(
    "div",
    { class: job.state === "done" ? null : "narrow" },
    h("p", { class: "crumbs" }, h("a", { href: `#/table/${job.table}` }, job.table_name)),
    h("h1", {}, titleOf(job)),
    box,
  );
}

/** Where what was waited for is shown: a report, by this view. */
function shownAt(job) {
  if (job.task === "fill") return `/model/${job.model}`;
  return job.task === "predict" ? `/ask/${job.model}` : `/job/${job.id}`;
}

function outcome(job) {
  const cancelled = job.state === "cancelled";
  return [
    h(
      "p",
      { role: "alert", tabindex: "-1", class: cancelled ? "stage" : "problem" },
      cancelled ? (job.error ?? "Cancelled. Nothing was kept.") : job.error,
    ),
    h("p", {}, h("a", { href: `#/table/${job.table}` }, "Back to the table")),
  ];
}
