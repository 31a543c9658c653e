// The start: a table from a file, or the example; and what is there already.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { attempt, problemSlot } from "../parts/problem.js";
import { removeButton } from "../parts/remove.js";
import { go } from "../router.js";
import { ago, bytes, count, listed, percent, plural } from "../words.js";

export async function startView({ signal }) {
  const [about, state] = await Promise.all([api.about(), api.state()]);
  return h(
    "div",
    { class: "start" },
    h(
      "section",
      { class: "hero" },
      h("h1", {}, "Fill the holes in a table"),
      h(
        "p",
        { class: "lead" },
        "It learns what the columns have to do with each other, fills what is missing, and says of " +
          "every filled cell how sure it is.",
      ),
    ),
    fileCard(about, signal),
    h(
      "p",
      {},
      "Rather find out one thing about a new case? ",
      h("a", { href: "#/ask" }, "Let the page ask you"),
      " for what is worth knowing.",
    ),
    ...owned(about, state),
  );
}

function fileCard(about, signal) {
  const slot = problemSlot();
  const input = h("input", {
    type: "file",
    id: "file",
    class: "unseen",
    accept: about.suffixes.join(","),
  });
  const words = h("span", { class: "invite" });
  const zone = h("label", { class: "drop", for: "file" }, words);
  const example = h("button", { type: "button" }, "Use the example");
  const missing = h("input", { type: "text", placeholder: "?, -999", autocomplete: "off" });
  invite();

  function invite() {
    put(
      words,
      h("strong", {}, "Drop a file here, or choose one"),
      h("small", {}, `CSV, Parquet or Feather, up to ${bytes(about.limits.upload_bytes)}`),
    );
  }

  async function take(file) {
    if (zone.classList.contains("busy")) return;
    slot.clear();
    if (file.size > about.limits.upload_bytes) {
      slot.show(
        `This file has ${bytes(file.size)}, and at most ${bytes(about.limits.upload_bytes)} ` +
          "are taken. Leave rows or columns out, or use the command line.",
      );
      return;
    }
    const texts = missing.value.split(",").map((text) => text.trim());
    put(words, h("strong", {}, "Reading ", file.name, "…"), h("small", {}, bytes(file.size)));
    zone.classList.add("busy");
    try {
      const table = await api.upload(file, texts.filter(Boolean));
      // Who has gone elsewhere meanwhile finds it in the list of tables.
      if (!signal.aborted) go(`/table/${table.id}`);
    } catch (problem) {
      slot.show(problem);
    } finally {
      zone.classList.remove("busy");
      input.value = "";
      invite();
    }
  }

  input.addEventListener("change", () => input.files.length && take(input.files[0]));
  zone.addEventListener("dragover", () => zone.classList.add("over"));
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    zone.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) take(file);
  });
  example.addEventListener("click", () =>
    attempt(example, slot, async () => go(`/table/${(await api.example()).id}`)),
  );
  return h(
    "section",
    { class: "card", "aria-label": "A table" },
    input,
    zone,
    slot.node,
    h(
      "div",
      { class: "beside" },
      h(
        "p",
        { class: "soft" },
        "No table at hand? A made-up clinic: 600 patients, 12 columns, a fifth missing.",
      ),
      example,
    ),
    h(
      "details",
      {},
      h("summary", {}, "Does a text in the file stand for a missing value?"),
      h(
        "label",
        { class: "field" },
        "Besides empty fields and NA, these mean missing (with commas between them)",
        missing,
      ),
    ),
  );
}

/** Sections of what this browser has made before, each only where there is something. */
function owned(about, state) {
  const running = state.jobs.filter(({ state: at }) => at === "running" || at === "waiting");
  const fills = state.models.filter(({ task }) => task === "fill");
  const predicts = state.models.filter(({ task }) => task === "predict");
  return [
    section("Under way", running.map(jobEntry)),
    section("Filled tables", fills.map(modelEntry)),
    section("Models to ask", predicts.map(askEntry)),
    section("Tables", state.tables.map(tableEntry)),
    state.models.length > 0 &&
      h("p", { class: "soft" }, "Finished models are kept in ", h("code", {}, about.kept_in), "."),
  ];
}

function section(title, entries) {
  if (!entries.length) return null;
  return h("section", {}, h("h2", {}, title), h("ul", { class: "entries" }, entries));
}

const TASKS = { fill: "Filling", predict: "Learning to ask about", evaluate: "Checking the fills of" };

function jobEntry(job) {
  const { step, steps } = job.progress;
  const far = job.state === "waiting" ? "waiting" : steps ? percent(step / steps) : "getting ready";
  return entry(`#/job/${job.id}`, `${TASKS[job.task]} ${job.table_name}`, far);
}

function modelEntry(model) {
  const about = model.rows === null ? model.file : `${plural(model.rows, "row")}, ${ago(model.created)}`;
  const remove = removeButton(`the model of ${model.name}`, () => api.removeModel(model.id), reload);
  return entry(`#/model/${model.id}`, model.name, about, !model.served && remove);
}

function askEntry(model) {
  const targets = listed(model.targets.map(({ name }) => name));
  const remove = removeButton(`the model of ${targets}`, () => api.removeModel(model.id), reload);
  const from = model.served ? "given at the start" : `from ${model.name}, ${ago(model.created)}`;
  return entry(`#/ask/${model.id}`, targets, from, !model.served && remove);
}

function tableEntry(table) {
  const about =
    `${plural(table.rows, "row")}, ${plural(table.columns_count, "column")}, ` +
    `${count(table.cells_missing)} holes`;
  const remove = removeButton(table.name, () => api.removeTable(table.id), reload);
  return entry(`#/table/${table.id}`, table.name, about, remove);
}

function entry(address, name, about, ...more) {
  return h(
    "li",
    {},
    h("a", { href: address }, name),
    h("span", { class: "soft" }, about),
    h("span", { class: "more" }, more),
  );
}

function reload() {
  go("/", { replace: true });
}
