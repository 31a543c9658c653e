// Which view is shown: the part of the address behind `#/`, so that a reload shows it again.

import { h, put } from "./dom.js";
import { problemCard } from "./parts/problem.js";

let current;

/** Show another view; with `replace`, "back" does not return to the one before. */
export function go(path, { replace = false } = {}) {
  if (!replace) location.hash = path;
  else {
    history.replaceState(null, "", `#${path}`);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

/** Show views by `routes`, a list of `[pattern, view, journey]`, as the address changes. */
export function watchAddress(main, routes) {
  const show = async () => {
    if (location.hash && !location.hash.startsWith("#/")) return;
    const path = location.hash.slice(1) || "/";
    const found = routes.map(([pattern, ...rest]) => [pattern.exec(path), ...rest]);
    const [match, view, journey] = found.find(([hit]) => hit) ?? [[], routes[0][1], "fill"];
    current?.abort();
    current = new AbortController();
    const { signal } = current;
    markJourney(journey);
    put(main, waiting());
    let content;
    try {
      content = await view({ signal, params: match.slice(1).map((part) => part ?? "") });
    } catch (problem) {
      content = problemCard(problem);
    }
    if (signal.aborted) return;
    put(main, content);
    arrive(main);
  };
  window.addEventListener("hashchange", show);
  show();
}

function waiting() {
  return h("p", { class: "waiting" }, "One moment…");
}

function markJourney(journey) {
  for (const link of document.querySelectorAll("[data-journey]")) {
    if (link.dataset.journey === journey) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Begin a new view at its heading, for eyes and for screen readers. */
function arrive(main) {
  const heading = main.querySelector("h1");
  document.title = heading ? `${heading.textContent} · hhvaem` : "hhvaem";
  window.scrollTo(0, 0);
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
