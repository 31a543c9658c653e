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
  const steps = [0.2, 0.5, 1, 2, 5, 10].map((factor) => factor * power);
  const ends = (step) => [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  // One number alone says nothing of the scale: of fewer than two, steps are finer.
  const several = steps.filter((step) => ends(step)[1] > ends(step)[0]);
  const step = several.find((each) => each >= rough) ?? several.at(-1) ?? steps[0];
  const [first, last] = ends(step);
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const value = (first + i) * step;
    // 0.30000000000000004 is 0.3.
    return Number(value.toPrecision(12));
  });
}
