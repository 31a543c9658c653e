// Sentences about what went wrong, near what caused it.

import { h } from "../dom.js";

/** A place for a sentence, empty as long as all is well. */
export function problemSlot() {
  const node = h("p", { class: "problem", role: "alert", hidden: true });
  return {
    node,
    show(problem) {
      node.textContent = problem.message ?? String(problem);
      node.hidden = false;
    },
    clear() {
      node.textContent = "";
      node.hidden = true;
    },
  };
}

/** Do something that may be refused: its button waits, and the sentence goes to its slot. */
export async function attempt(button, slot, deed) {
  slot.clear();
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await deed();
  } catch (problem) {
    slot.show(problem);
    return undefined;
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  }
}

/** A view that could not be shown. */
export function problemCard(problem) {
  return h(
    "section",
    { class: "card narrow" },
    h("h1", {}, problem.status === 404 ? "It is not here any more" : "That did not work"),
    h("p", { role: "alert" }, problem.message),
    h("p", {}, h("a", { href: "#/" }, "Back to the start")),
  );
}
