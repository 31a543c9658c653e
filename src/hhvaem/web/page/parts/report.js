// The trust report: a verdict on each column, in plain words.

import { api } from "../api.js";
import { h } from "../dom.js";
import { legend } from "../plots/picture.js";
import { places } from "../plots/places.js";
import { duration, percent, plural, sentence } from "../words.js";

// A sign beside the colour, for those who do not see colours.
const TONES = {
  trust: ["good", "✓"],
  "wide but honest": ["fair", "≈"],
  "no better than the column mean": ["poor", "–"],
  "too sure of itself": ["bad", "!"],
  "too few cells to tell": ["open", "?"],
};

/** Show the report of a job that is done. */
export async function reportOf(job) {
  const report = await api.report(job.id);
  const { verdicts, methods } = report.facts;
  const shaped = verdicts.filter((each) => each.places);
  return h(
    "div",
    { class: "report" },
    h("p", { class: "soft" }, report.hidden, report.left_out && ` Nothing was hidden of ${report.left_out}.`),
    report.words.map((text) => h("p", {}, text)),
    h("h2", {}, "Column by column"),
    legend([
      ["model", "error of the fills"],
      ["mean", "error of the column mean, or of the most frequent level"],
    ]),
    h("ul", { class: "verdicts" }, verdicts.map((each) => verdictOf(each, verdicts))),
    h(
      "details",
      {},
      h("summary", {}, "What the verdicts mean"),
      h(
        "dl",
        { class: "meanings" },
        Object.entries(report.meanings ?? {}).map(([word, says]) =>
          h("div", {}, h("dt", {}, badge(word)), h("dd", {}, sentence(says))),
        ),
      ),
    ),
    methods?.length > 1 && methodsTable(methods),
    shaped.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, "Are the intervals honest?"),
        h(
          "p",
          { class: "soft" },
          "Each panel counts where the truth was in what the model had said. If it is honest, all " +
            "bars are about as high as the line, most of them within the grey band. Bars that rise " +
            "at both ends mean it was too sure; a hump in the middle, that its intervals are wider " +
            "than they need be.",
        ),
        h(
          "div",
          { class: "panels" },
          shaped.map((each) =>
            h("figure", {}, h("figcaption", {}, each.column), places(each.places, each.column)),
          ),
        ),
      ),
    h(
      "p",
      {},
      h("a", { href: `/api/jobs/${job.id}/report.html`, download: true }, "Download this report as a page"),
    ),
  );
}

function badge(word, called = word) {
  const [tone, sign] = TONES[word] ?? ["open", "?"];
  return h(
    "span",
    { class: `verdict ${tone}` },
    h("span", { class: "sign", "aria-hidden": "true" }, sign),
    called,
  );
}

function verdictOf(each, all) {
  const scores = all.flatMap(({ score, score_of_mean: mean }) => [score, mean]);
  const most = Math.max(...scores.filter(Number.isFinite), 1e-9);
  const bar = (kind, value, says) => {
    if (!Number.isFinite(value)) return null;
    const label = `${says} ${value.toFixed(2)}`;
    const node = h("span", { class: `bar ${kind}`, role: "img", "aria-label": label });
    node.style.width = `${(100 * value) / most}%`;
    return node;
  };
  return h(
    "li",
    {},
    h(
      "span",
      {},
      h("strong", { class: "name", title: each.column }, each.column),
      h("small", {}, ` ${plural(each.cells, "cell")} hidden`),
    ),
    badge(each.verdict, each.called),
    h(
      "span",
      { class: "bars" },
      bar("model", each.score, "error of the fills"),
      bar("mean", each.score_of_mean, "error of the column mean, or of the most frequent level"),
    ),
    h("span", { class: "because" }, each.sentence),
  );
}

function methodsTable(methods) {
  const heads = [
    ["rmse_missing", "error", (value) => value.toFixed(3)],
    ["crps", "error of the law (CRPS)", (value) => value.toFixed(3)],
    ["coverage90", "truths inside 90 % intervals", percent],
  ].filter(([name]) => methods.some(({ scores }) => Number.isFinite(scores[name])));
  return h(
    "details",
    {},
    h("summary", {}, "Beside other methods"),
    h("p", { class: "soft" }, "On the same hidden cells. Of errors, less is better."),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "method"),
            heads.map(([, text]) => h("th", { scope: "col", class: "number" }, text)),
            h("th", { scope: "col", class: "number" }, "time"),
          ),
        ),
        h(
          "tbody",
          {},
          methods.map(({ name, called, scores, seconds }) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, called ?? name),
              heads.map(([score, , written]) =>
                h("td", { class: "number" }, Number.isFinite(scores[score]) ? written(scores[score]) : "–"),
              ),
              h("td", { class: "number" }, duration(seconds)),
            ),
          ),
        ),
      ),
    ),
  );
}
