// What can be taken away: the filled table, draws of it, the model.

import { api } from "../api.js";
import { h } from "../dom.js";
import { bytes, plural } from "../words.js";

const FORMATS = [["csv", "CSV"], ["parquet", "Parquet"], ["feather", "Feather"]];

export async function downloadTab({ model, table }) {
  const at = `/api/models/${model.id}`;
  const cards = [];
  if (table) {
    const { draws } = await api.draws(model.id);
    const many = h("input", { type: "number", min: 1, max: draws, value: draws });
    const links = formats(`${at}/draws`);
    const renew = () => {
      const wanted = Math.min(Math.max(Math.round(Number(many.value)) || 1, 1), draws);
      links.forEach((link, i) => (link.href = `${at}/draws.${FORMATS[i][0]}?count=${wanted}`));
    };
    many.addEventListener("input", renew);
    renew();
    cards.push(
      card(
        "The filled table",
        "One value for each hole. What was known is as it was.",
        formats(`${at}/filled`),
      ),
      card(
        "Several completed tables",
        "Each hole drawn anew for every table, so that a later analysis sees how unsure the fills " +
          "are. One long file with the number of the draw and of the row in front.",
        links,
        h("label", { class: "field short" }, `How many, up to ${plural(draws, "draw")}`, many),
      ),
    );
  }
  cards.push(
    card(
      "The model",
      [
        "To fill tables with the same columns on the command line, where both files lie: ",
        h("code", {}, command(model.name, table?.marks ?? [])),
      ],
      [
        h(
          "a",
          { class: "button", href: `${at}/file`, download: true },
          model.bytes ? `Model, ${bytes(model.bytes)}` : "Model",
        ),
      ],
    ),
  );
  return h("section", { class: "cards", "aria-label": "Download" }, cards);
}

/** What fills the table once more, by the model as its file is called. */
function command(name, marks) {
  // Or it would be taken for an option.
  const here = name.startsWith("-") ? "./" : "";
  const stem = name.split(".")[0];
  const files = [`${here}${stem || "table"}.hhvaem`, here + name].map(quoted);
  const words = ["hhvaem", "impute", ...files, "--out", quoted(`filled${name.slice(stem.length)}`)];
  return [...words, ...marks.flatMap((mark) => ["--missing", quoted(mark)])].join(" ");
}

/** As shells want it: in double quotes, which all of them have, unless something in it is special. */
function quoted(text) {
  if (/^[\w./-]+$/.test(text)) return text;
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : `"${text}"`;
}

function formats(at) {
  return FORMATS.map(([suffix, name]) =>
    h("a", { class: "button", href: `${at}.${suffix}`, download: true }, name),
  );
}

function card(title, says, links, more = null) {
  return h(
    "div",
    { class: "card" },
    h("h2", {}, title),
    h("p", { class: "soft" }, says),
    more,
    h("div", { class: "buttons" }, links),
  );
}
