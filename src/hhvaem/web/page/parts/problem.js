// Sentences about what went wrong, near what caused it.

import { freshId, h } from "../dom.js";

/** What a field says that cannot be used, found before the server is asked. */
export class Mistake extends Error {
  constructor(message, control) {
    super(message);
    this.control = control;
  }
}

/**
 * A place for a sentence, empty as long as all is well.
 *
 * A sentence about a field (`control`) stands below that field, which is marked and has the focus.
 */
export function problemSlot() {
  const sentence = h("p", { class: "problem", role: "alert", id: freshId("problem") });
  const node = h("div", { class: "slot" });
  let marked = null;

  function clear() {
    marked?.removeAttribute("aria-invalid");
    marked?.removeAttribute("aria-describedby");
    marked = null;
    sentence.remove();
  }

  return {
    node,
    clear,
    show(problem, control = null) {
      clear();
      sentence.textContent = problem.message ?? String(problem);
      const field = control?.closest(".field, [role=radiogroup]");
      if (field) field.after(sentence);
      else node.append(sentence);
      if (control === null) return;
      // Of several buttons it is the group that is wrong.
      marked = control.closest("[role=radiogroup]") ?? control;
      marked.setAttribute("aria-invalid", "true");
      marked.setAttribute("aria-describedby", sentence.id);
      const folded = control.closest("details:not([open])");
      if (folded) folded.open = true;
      control.focus();
    },
  };
}

/**
 * Do something that may be refused: its button waits, and the sentence goes to its slot.
 *
 * `about` gives the field that a refusal by the server is about, or null where it is about none.
 */
export async function attempt(button, slot, deed, about = () => null) {
  const focused = document.activeElement === button;
  slot.clear();
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await deed();
  } catch (problem) {
    button.disabled = false;
    slot.show(problem, problem.control ?? (isBadInput(problem) ? about(problem) : null));
    return undefined;
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
    // What is disabled loses the focus, which is nowhere then.
    if (focused && document.activeElement === document.body) button.focus();
  }
}

function isBadInput({ status }) {
  return status === 400 || status === 422;
}

/** Of `[name, control]`, the control whose name a sentence of the server quotes; null where none is. */
export function namedIn({ message }, fields) {
  const found = fields.find(([name]) => message.includes(`'${name}'`) || message.includes(`"${name}"`));
  return found?.[1] ?? null;
}

/** Unfold what holds a field that the browser refuses: it cannot point at one that is folded away. */
export function unfoldInvalid(form) {
  form.addEventListener(
    "invalid",
    ({ target }) => {
      const folded = target.closest("details:not([open])");
      if (folded) folded.open = true;
    },
    { capture: true },
  );
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
