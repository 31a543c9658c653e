// What is there already, in lists.

import { h } from "../dom.js";
import { listed, percent } from "../words.js";

/** A section of entries, only where there is one. */
export function section(title, entries) {
  if (!entries.length) return null;
  return h("section", {}, h("h2", {}, title), h("ul", { class: "entries" }, entries));
}

/** An entry: what leads to it, what it is, and what can be done with it. */
export function entry(address, name, about, ...more) {
  return h(
    "li",
    {},
    h("a", { href: address }, name),
    h("span", { class: "soft" }, about),
    h("span", { class: "more" }, more),
  );
}

/** Jobs that run or wait. */
export function underWay(jobs) {
  const running = jobs.filter(({ state }) => state === "running" || state === "waiting");
  return section("Under way", running.map(jobEntry));
}

function jobEntry(job) {
  const { step, steps } = job.progress;
  const far = job.state === "waiting" ? "waiting" : steps ? percent(step / steps) : "getting ready";
  return entry(`#/job/${job.id}`, titleOf(job), far);
}

/** Say what a job does. */
export function titleOf({ task, targets, table_name: name }) {
  if (task === "predict") return `Learning to ask about ${listed(targets)}`;
  return task === "fill" ? `Filling ${name}` : `Checking the fills of ${name}`;
}
