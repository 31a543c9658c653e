// How far a job is, live.

import { api, follow } from "../api.js";
import { drawnToFit, h, put } from "../dom.js";
import { announce } from "../live.js";
import { sparkline } from "../plots/sparkline.js";
import { count, duration, number, percent, plural } from "../words.js";
import { attempt, problemSlot } from "./problem.js";

const STAGES = {
  starting: "Getting ready",
  choosing: "Trying out how cautious to be",
  training: "Learning how the columns hang together",
  sampling: "Refining what was learned",
  filling: "Filling the holes",
  finishing: "Getting the model ready for use",
  comparing: "Comparing with other methods",
  finished: "Finished",
};
const LEGS = {
  fill: ["Getting ready", "Learning", "Filling"],
  predict: ["Getting ready", "Learning", "Trying it out"],
  evaluate: ["Getting ready", "Learning", "Comparing"],
};
const LEG_OF = { starting: 0, choosing: 1, training: 1, sampling: 1, finishing: 2, filling: 2, comparing: 2 };
const MOST_POINTS = 400;

/** Show a job; `ended` is called with its last state. */
export function progressCard(job, { signal, ended }) {
  const stage = h("p", { class: "stage" });
  const left = h("p", { class: "soft" });
  const bar = h("progress", { max: 1, "aria-label": "How far it is" });
  const curve = h("div", { class: "curve" });
  const facts = h("dl", { class: "facts small" });
  const legs = h("ol", { class: "legs" });
  const slot = problemSlot();
  const losses = remembered(job.id);
  const cancel = h("button", { type: "button" }, "Cancel");
  const under = h("dd");
  let [said, drawn] = ["", 0];
  let clock = 0;

  cancel.addEventListener("click", () =>
    attempt(cancel, slot, async () => ended(await api.cancel(job.id))),
  );

  function show(now) {
    const { progress } = now;
    slot.clear();
    put(legs, legsOf(now));
    stage.textContent = inWords(now);
    left.textContent = timeLeft(now);
    if (progress.steps) bar.value = progress.step / progress.steps;
    else bar.removeAttribute("value");
    if (progress.loss !== null) losses.add(progress.step, progress.loss);
    const { values } = losses;
    if (values.length > 1 && values.length !== drawn) {
      drawn = values.length;
      put(curve, drawnToFit(h("div"), (width) => sparkline(values, width)));
    }
    put(facts, factsOf(now, losses, under));
    tick(now);
    const news = `${stage.textContent}${quarters(progress)}`;
    if (news !== said) announce((said = news));
  }

  /** Let the seconds go on between what the server tells. */
  function tick({ progress, state }) {
    clearInterval(clock);
    const heard = performance.now();
    const write = () => {
      const since = state === "running" ? (performance.now() - heard) / 1000 : 0;
      under.textContent = duration(progress.seconds + since);
    };
    write();
    if (state === "running" && !signal.aborted) clock = setInterval(write, 1000);
  }

  function stop() {
    clearInterval(clock);
  }

  show(job);
  signal.addEventListener("abort", stop);
  follow(job.id, {
    signal,
    changed: show,
    ended(last) {
      stop();
      ended(last);
    },
    lost: (text) => slot.show(text),
  });
  return h(
    "div",
    { class: "progress" },
    legs,
    stage,
    bar,
    left,
    curve,
    facts,
    slot.node,
    h("div", { class: "buttons" }, cancel),
    h("p", { class: "soft" }, "You may close or reload this page: training goes on."),
  );
}

function inWords({ progress, ahead, state }) {
  if (state === "waiting") {
    return ahead ? `Waiting for ${plural(ahead, "job")} before this one` : "Waiting";
  }
  return STAGES[progress.stage] ?? "Working";
}

/** How far it is, in words that change seldom enough to be read out. */
function quarters({ step, steps }) {
  const done = steps ? Math.floor((4 * step) / steps) : 0;
  return done ? `: ${25 * done} percent` : "";
}

function legsOf({ progress, task }) {
  const at = LEG_OF[progress.stage] ?? 0;
  return LEGS[task].map((text, i) =>
    h("li", { class: i < at ? "past" : null, "aria-current": i === at && "step" }, text),
  );
}

function timeLeft({ progress, state }) {
  if (state === "waiting") return "It begins by itself.";
  if (progress.stage === "starting") return "This takes some seconds to half a minute.";
  if (progress.stage === "finishing") return "This takes some seconds.";
  if (progress.seconds_left === null) return "How long this takes is not known yet.";
  return `About ${duration(progress.seconds_left)} left in this stage`;
}

function factsOf({ progress, state }, losses, under) {
  const facts = [];
  if (progress.steps) {
    const what = progress.stage === "filling" ? "rows" : "steps";
    facts.push([what, `${count(progress.step)} of ${count(progress.steps)}`]);
  }
  if (losses.values.length) facts.push(["loss (lower is better)", number(losses.values.at(-1))]);
  if (progress.acceptance !== null) {
    facts.push(["trial moves accepted", percent(progress.acceptance)]);
  }
  const shown = facts.map(([name, value]) => fact(name, h("dd", {}, value)));
  return state === "running" ? [...shown, fact("under way for", under)] : shown;
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), value);
}

/** Losses seen so far, also before a reload. */
function remembered(id) {
  const key = `hhvaem-loss-${id}`;
  let points = [];
  try {
    points = JSON.parse(sessionStorage.getItem(key)) ?? [];
  } catch {
    // Nothing is remembered then.
  }
  return {
    get values() {
      return points.map(([, loss]) => loss);
    },
    add(step, loss) {
      if (points.length && points.at(-1)[0] === step) return;
      points.push([step, loss]);
      // Every other one, where they become too many for the picture.
      if (points.length > MOST_POINTS) points = points.filter((_, i) => i % 2 === 0);
      try {
        sessionStorage.setItem(key, JSON.stringify(points));
      } catch {
        // They last until a reload.
      }
    },
  };
}
