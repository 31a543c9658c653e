// What was noticed while a model was trained.

import { api } from "../api.js";
import { h } from "../dom.js";

/** Give the notes of the job that made a model. */
export async function notesOf(model) {
  const { jobs } = await api.state();
  const made = jobs.find((job) => job.model === model);
  return (made?.notes ?? []).map((note) => h("p", { class: "note" }, note));
}
