// Put the levels of a text column in order.

import { h, put } from "../dom.js";

/** Ask for the order; gives the levels, or null where it was left. */
export function orderDialog(name, levels) {
  const order = [...levels];
  const list = h("ol", { class: "order" });

  function move(from, to, focus) {
    order.splice(to, 0, ...order.splice(from, 1));
    show();
    const buttons = list.children[to].querySelectorAll("button");
    (buttons[focus].disabled ? buttons[1 - focus] : buttons[focus]).focus();
  }

  function show() {
    put(
      list,
      order.map((level, i) =>
        h(
          "li",
          {},
          h("span", {}, String(level)),
          step("↑", `Move ${level} up`, i === 0, () => move(i, i - 1, 0)),
          step("↓", `Move ${level} down`, i === order.length - 1, () => move(i, i + 1, 1)),
        ),
      ),
    );
  }

  function step(sign, says, disabled, deed) {
    const props = { type: "button", class: "quiet", "aria-label": says, disabled, onclick: deed };
    return h("button", props, sign);
  }

  const dialog = h(
    "dialog",
    { "aria-label": `Order of ${name}` },
    h(
      "form",
      { method: "dialog" },
      h("h2", {}, `In which order are the levels of ${name}?`),
      h("p", { class: "soft" }, "From the lowest to the highest."),
      list,
      h(
        "div",
        { class: "buttons" },
        h("button", { value: "yes", class: "main" }, "Use this order"),
        h("button", { value: "no", class: "quiet" }, "Leave it"),
      ),
    ),
  );
  show();
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((tell) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      tell(dialog.returnValue === "yes" ? order : null);
    });
  });
}
