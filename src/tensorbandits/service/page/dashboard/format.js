// Numbers, times and durations as people read them.

const RATES = ["bernoulli", "binomial"];
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const BRIEF = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const THREE = new Intl.NumberFormat("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const MINUS = "−";
const NONE = "–";
const THIN = "\u202f"; // before a unit, so that no line ends there

const known = (value) => value !== null && value !== undefined;
const signed = (text) => text.replace("-", MINUS);

/** Whether mean rewards are shares, shown in percent. */
export const isRate = (kind) => RATES.includes(kind);

export const count = (value) => (known(value) ? signed(WHOLE.format(value)) : NONE);
export const brief = (value) => (known(value) ? signed((Math.abs(value) < 1e7 ? WHOLE : BRIEF).format(value)) : NONE);
export const about = (value) => WHOLE.format(Number(value.toPrecision(2)));
export const number = (value) => (known(value) ? signed(SHORT.format(value)) : NONE);

/** A mean reward: in percent for clicks, else three digits. */
export function reward(value, kind) {
  if (!known(value)) return NONE;
  return isRate(kind) ? `${percentDigits(100 * value)}${THIN}%` : signed(THREE.format(value));
}

function percentDigits(value) {
  const digits = Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 0.1 ? 2 : 3;
  return signed(value.toFixed(value === 0 ? 0 : digits));
}

/** A difference of mean rewards, with its sign: in percentage points for clicks. */
export function difference(value, kind) {
  if (!known(value)) return NONE;
  const plus = value > 0 ? "+" : "";
  return isRate(kind) ? `${plus}${percentDigits(100 * value)}${THIN}pp` : `${plus}${signed(THREE.format(value))}`;
}

export function share(value, digits = 0) {
  return known(value) ? `${signed((100 * value).toFixed(digits))}${THIN}%` : NONE;
}

export function change(value) {
  if (!known(value)) return NONE;
  if (Math.abs(value) >= 10) return `${value > 0 ? "×" : MINUS}${SHORT.format(Math.abs(1 + value))}`;
  const percent = 100 * value;
  return `${value > 0 ? "+" : ""}${signed(percent.toFixed(Math.abs(percent) < 10 ? 1 : 0))}${THIN}%`;
}

/** A text of the server with the sign of negative numbers that this page writes. */
export const minus = (text) => text.replace(/(?<![\w.])-(?=\d)/g, MINUS);

export const between = (low, high, write) => (known(low) && known(high) ? `${write(low)} to ${write(high)}` : NONE);

export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const steps = [[1, "ms", 1000], [120, "s", 1], [7200, "min", 1 / 60], [172800, "h", 1 / 3600], [Infinity, "d", 1 / 86400]];
  const [, unit, factor] = steps.find(([limit]) => seconds < limit);
  return `${SHORT.format(Number((seconds * factor).toPrecision(2)))}${THIN}${unit}`;
}

/** Whether a clock tells the time of day, or only seconds of its own. */
export const isDate = (seconds) => seconds > 1e8 && seconds < 1e11;

export function clock(seconds) {
  if (!known(seconds)) return NONE;
  if (!isDate(seconds)) return `${number(seconds)} s`;
  const date = new Date(1000 * seconds);
  const day = Math.abs(Date.now() - date) > 43200000 ? `${date.toLocaleDateString("en-CA")} ` : "";
  return day + date.toLocaleTimeString("en-GB");
}

export function ago(seconds, now = Date.now() / 1000) {
  if (!known(seconds)) return NONE;
  const past = now - seconds;
  return isDate(seconds) ? (past < 1.5 ? "just now" : `${duration(past)} ago`) : clock(seconds);
}

/** A label that fits; the whole is shown elsewhere. */
export function cut(text, longest) {
  const letters = [...String(text)];
  return letters.length <= longest ? letters.join("") : `${letters.slice(0, longest - 1).join("")}…`;
}

/** A label within a sentence. */
export const within = (text) => cut(text, 40);

/** Several words as in a sentence. */
export const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
