// Numbers, times and values as text. Times are UTC.

const DASH = "–";

function count(value) {
  return value === null || value === undefined ? DASH : value.toLocaleString("en-US");
}

function countOf(value, what, many) {
  return `${count(value)} ${value === 1 ? what : many || what + "s"}`;
}

/** A number in few characters, for axes: 1.2k, 3M, 4.6e+18. */
function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(1);
  for (const [unit, factor] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (size >= factor) return `${trimmed(value / factor)}${unit}`;
  }
  return trimmed(value);
}

function trimmed(value) {
  return String(Number(value.toPrecision(4)));
}

function bytesText(value) {
  const unit = unitOf(BYTES, value);
  return unit.factor === 1 ? countOf(value, "byte") : `${(value / unit.factor).toPrecision(3)} ${unit.name}`;
}

function timeText(ms) {
  if (ms === null || ms === undefined) return DASH;
  const time = new Date(ms);
  if (Number.isNaN(time.getTime())) return `${ms} ms`;
  return time.toISOString().replace("T", " ").replace(/\.000Z$/, "").replace(/Z$/, "");
}

/** A span of time in its two largest units. */
function spanText(ms) {
  if (ms === null || ms === undefined) return DASH;
  if (ms < 0) return `−${spanText(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10000) return `${trimmed(ms / 1000)} s`;
  const parts = [];
  let rest = Math.floor(ms / 1000);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const whole = Math.floor(rest / size);
    rest -= whole * size;
    if (whole) parts.push(`${count(whole)} ${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

const BYTES = [
  { name: "bytes", factor: 1 }, { name: "kB", factor: 1e3 }, { name: "MB", factor: 1e6 },
  { name: "GB", factor: 1e9 }, { name: "TB", factor: 1e12 },
];
const SPANS = [
  { name: "ms", factor: 1 }, { name: "s", factor: 1e3 }, { name: "min", factor: 6e4 },
  { name: "h", factor: 3.6e6 }, { name: "days", factor: 8.64e7 },
];

/** The largest unit in which a value is at least two. */
function unitOf(units, value) {
  return units.reduce((best, one) => (Math.abs(value) >= 2 * one.factor ? one : best), units[0]);
}

/** A value of a user as text. Texts stand alone without quotes. */
function valueText(value) {
  if (value === null || value === undefined) return DASH;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A key: the value of its only column, or all columns. */
function keyText(key) {
  const values = key !== null && typeof key === "object" && !Array.isArray(key) ? Object.values(key) : [key];
  return values.length === 1 ? valueText(values[0]) : valueText(key);
}
