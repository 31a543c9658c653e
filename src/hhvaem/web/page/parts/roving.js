// Arrow keys move between the marked cells of a table, which so takes one stop of the tab key.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Let arrow keys move among what `selector` finds in a table's body. */
export function moveByArrows(body, selector) {
  body.addEventListener("keydown", (event) => {
    const from = event.target.closest(selector);
    if (!from || !(event.key in STEPS)) return;
    event.preventDefault();
    const next = neighbour(body, selector, from, STEPS[event.key]);
    next?.focus();
  });
  body.addEventListener("focusin", (event) => {
    const cell = event.target.closest(selector);
    if (!cell) return;
    for (const other of body.querySelectorAll(selector)) other.tabIndex = other === cell ? 0 : -1;
  });
}

function neighbour(body, selector, from, [right, down]) {
  const all = [...body.querySelectorAll(selector)];
  if (right) return all[all.indexOf(from) + right];
  const own = Number(from.dataset.row);
  const beyond = all.filter((cell) => (Number(cell.dataset.row) - own) * down > 0);
  const far = (cell) =>
    1000 * Math.abs(Number(cell.dataset.row) - own) +
    Math.abs(Number(cell.dataset.column) - Number(from.dataset.column));
  return beyond.sort((one, other) => far(one) - far(other))[0];
}
