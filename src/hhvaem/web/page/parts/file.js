// A table from a file, dropped or chosen, or the example.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { bytes } from "../words.js";
import { attempt, problemSlot } from "./problem.js";

/**
 * Fields to give a table, and the example.
 *
 * `taken` is called with the table, unless somebody has gone elsewhere meanwhile, who then finds it
 * in the list of tables.
 */
export function fileFields(about, signal, taken) {
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
      if (!signal.aborted) taken(table);
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
    attempt(example, slot, async () => {
      const table = await api.example();
      if (!signal.aborted) taken(table);
    }),
  );
  return [
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
  ];
}
