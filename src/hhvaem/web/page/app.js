// The start of everything: the frame around the views, and which address shows which.

import { api } from "./api.js";
import { watchAddress } from "./router.js";
import { chooseView } from "./views/choose.js";
import { jobView } from "./views/job.js";
import { modelView } from "./views/model.js";
import { sessionView } from "./views/session.js";
import { setupView } from "./views/setup.js";
import { startView } from "./views/start.js";
import { tableView } from "./views/table.js";

const ROUTES = [
  [/^\/$/, startView, "fill"],
  [/^\/table\/([^/]+)$/, tableView, "fill"],
  [/^\/job\/([^/]+)$/, jobView, "fill"],
  [/^\/model\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/, modelView, "fill"],
  [/^\/ask$/, chooseView, "ask"],
  [/^\/ask\/([^/]+)$/, setupView, "ask"],
  [/^\/session\/([^/]+)$/, sessionView, "ask"],
];

function isDark() {
  const chosen = document.documentElement.dataset.look;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function watchLook(button) {
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} look`);
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.addEventListener("click", () => {
    const look = isDark() ? "light" : "dark";
    document.documentElement.dataset.look = look;
    try {
      localStorage.setItem("hhvaem-look", look);
    } catch {
      // No storage: it lasts until the page is closed.
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

const main = document.getElementById("main");
watchLook(document.getElementById("look"));
document.querySelector(".skip").addEventListener("click", (event) => {
  // The address says which view is shown, and must not change.
  event.preventDefault();
  main.focus();
});
// A file that is dropped beside its place must not replace the page.
for (const name of ["dragover", "drop"]) {
  window.addEventListener(name, (event) => event.preventDefault());
}
watchAddress(main, ROUTES);
api.about().then(
  ({ version }) => (document.getElementById("version").textContent = `hhvaem ${version}`),
  () => {},
);
