// What a screen reader is told of its own accord.

/** Say something politely. */
export function announce(text) {
  const place = document.getElementById("live");
  // The same text twice is not a change, and would not be read.
  place.textContent = place.textContent === text ? `${text}\u00a0` : text;
}
