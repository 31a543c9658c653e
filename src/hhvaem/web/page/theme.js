// Runs before anything is drawn, so that a chosen look does not flash: no module for this reason.
(() => {
  try {
    const chosen = localStorage.getItem("hhvaem-look");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.look = chosen;
  } catch {
    // No storage: the system's look.
  }
})();
