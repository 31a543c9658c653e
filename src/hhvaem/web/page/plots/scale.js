// From values to places in a picture.

/** Give a value as a number: a date as milliseconds, in the time zone of nobody. */
export function asNumber(value) {
  if (typeof value === "number") return value;
  // Whole numbers that are too large for a browser are texts.
  if (/^-?\d+$/.test(value)) return Number(value);
  return Date.parse(value.includes("T") && !/(Z|[+-]\d\d:?\d\d)$/.test(value) ? `${value}Z` : value);
}

/** Map from `low` to `high` onto `start` to `end`. */
export function linear(low, high, start, end) {
  const length = high - low || 1;
  return (value) => start + ((value - low) / length) * (end - start);
}

/** Give round numbers between two others, about as many as asked for. */
export function ticks(low, high, about = 5) {
  const rough = (high - low) / Math.max(about, 1);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const value = (first + i) * step;
    // 0.30000000000000004 is 0.3.
    return Number(value.toPrecision(12));
  });
}
