// A button that removes something, and asks before it does.

import { h, put } from "../dom.js";
import { attempt, problemSlot } from "./problem.js";

/** Make the button; `remove` does it, `gone` is called after it. */
export function removeButton(what, remove, gone) {
  const slot = problemSlot();
  const box = h("span", { class: "remove" });
  const first = h(
    "button",
    { type: "button", class: "quiet", "aria-label": `Remove ${what}`, onclick: sure },
    "Remove",
  );
  function sure() {
    const yes = h("button", { type: "button", class: "danger" }, "Remove for good");
    const no = h("button", { type: "button", class: "quiet" }, "Keep");
    yes.addEventListener("click", () =>
      attempt(yes, slot, async () => {
        await remove();
        gone();
      }),
    );
    no.addEventListener("click", () => {
      put(box, first);
      first.focus();
    });
    put(box, yes, no, slot.node);
    no.focus();
  }
  return put(box, first);
}
