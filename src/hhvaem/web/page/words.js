// Numbers and times as words for people.

const NARROW = "\u202f";

/** Write a number with about four digits that matter. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const size = Math.abs(value);
  if (size >= 1e7 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

/** Write a cell of a table: numbers short, truth values as words, texts as they are. */
export function cell(value) {
  if (typeof value === "number") return number(value);
  if (value === true) return "true";
  if (value === false) return "false";
  return value === null ? "" : String(value);
}

/** Write a value as it would be said. */
export function spoken(value) {
  if (value === true) return "yes";
  return value === false ? "no" : cell(value);
}

/** Write how many there are. */
export function count(value) {
  return value.toLocaleString("en");
}

/** Write how many there are of something: `plural(1, "row")` is "1 row". */
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Write a share, never as none or all where it is neither. */
export function percent(share) {
  if (share > 0 && share < 0.01) return `under 1${NARROW}%`;
  if (share < 1 && share > 0.99) return `over 99${NARROW}%`;
  return `${Math.round(100 * share)}${NARROW}%`;
}

const OFTEN = new Map([
  [0.5, "one of two"],
  [0.8, "four of five"],
  [0.9, "nine of ten"],
  [0.95, "nineteen of twenty"],
]);

/** Write a probability as how many of how many. */
export function often(level) {
  return OFTEN.get(level) ?? percent(level);
}

/** Write both ends of an interval with as many digits as its width makes sense of. */
export function ends(low, high) {
  return [low, high].map((end) => rounded(end, low, high, 0));
}

/** Write a value that lies in an interval, a digit finer than its ends. */
export function within(value, low, high) {
  return rounded(value, low, high, 1);
}

function rounded(value, low, high, finer) {
  if (typeof value !== "number" || !(high > low)) return cell(value);
  if (Math.max(Math.abs(low), Math.abs(high)) >= 1e7) return number(value);
  const digits = 1 - Math.floor(Math.log10(high - low)) + finer;
  return String(Number(value.toFixed(Math.min(Math.max(digits, 0), 12))));
}

/** Say where a value lies. */
export function between(low, high, level) {
  const [least, most] = ends(low, high);
  if (least === most) return `${least} in at least ${often(level)} cases`;
  return `between ${least} and ${most} in ${often(level)} cases`;
}

/** Write a duration roughly. */
export function duration(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return plural(Math.round(seconds), "second");
  if (seconds < 5400) return plural(Math.round(seconds / 60), "minute");
  return plural(Math.round(seconds / 3600), "hour");
}

/** Write when something was, seen from now. */
export function ago(time) {
  const seconds = Date.now() / 1000 - time;
  return seconds < 60 ? "just now" : `${duration(seconds)} ago`;
}

/** Write a size of a file. */
export function bytes(size) {
  if (size < 1024) return plural(size, "byte");
  const [unit, name] = size < 1024 ** 2 ? [1024, "kB"] : [1024 ** 2, "MB"];
  const many = size / unit;
  return `${number(many < 10 ? Math.round(10 * many) / 10 : Math.round(many))}${NARROW}${name}`;
}

/** Write names one after another. */
export function listed(names) {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** Begin with a capital. */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Keep the beginning of a text that is too long for its place. */
export function cut(text, most) {
  return text.length > most ? `${text.slice(0, Math.max(most - 1, 1))}…` : text;
}
