// Steering: what a key may change, what a change would do, doing it after a look at before and after, and undoing it.

import * as api from "./api.js";
import { ask, toast } from "./dialog.js";
import { h, table } from "./dom.js";
import * as f from "./format.js";

/** Whether a key may change bandits; and make them, and handle keys, which takes one that is not limited to some. */
export const maySteer = (who) => who.role === "admin";
export const mayMake = (who) => who.role === "admin" && who.bandits === null;

/** Words for those whose key may not. */
export function explained(who, what = "change a bandit") {
  const limited = who.role === "admin" ? ", which is limited to some bandits" : "";
  return h("p", { class: "faint" }, `Your key${who.name ? ` (${who.name})` : ""} has the role ${who.role}${limited}. To ${what}, sign in with a key of the role admin${what === "change a bandit" ? "" : " that is for all bandits"}.`);
}

const NAMES = {
  holdout: "Held out for the baseline", baseline: "The baseline plays", window: "A decision waits for its reward", default: "Reward when the wait has ended",
  floors: "Gets at least", ceilings: "Gets at most", half_life: "A reward counts half after", apprentice: "Runs beside your own rule", rollout: "Share of visitors it decides for", paused: "Paused",
};
const SHARES = ["holdout", "rollout"];
export const settingName = (name) => NAMES[name] ?? name;

/** A label as people read it: days and times without the object around them. */
export const labelText = (label) => String(label !== null && typeof label === "object" ? Object.values(label)[0] : label);

export function labelsText(labels) {
  const parts = Object.entries(labels).map(([mode, label]) => `${mode} = ${Array.isArray(label) ? label.map(labelText).join(", ") : labelText(label)}`);
  return parts.length ? parts.join(", ") : "all combinations";
}

const partsText = (parts) => (parts.length ? parts.map((one) => `${f.share(one.share, 1)} ${labelsText(one.labels)}`).join("; ") : "nothing");

export function settingText(name, value) {
  if (value === null || value === undefined) return name === "baseline" ? "all allowed combinations alike" : name === "window" ? "as long as it takes" : name === "half_life" ? "never" : ["paused", "apprentice"].includes(name) ? "no" : SHARES.includes(name) ? "none" : "not set";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (SHARES.includes(name)) return f.share(value, value > 0 && value < 0.01 ? 1 : 0);
  if (name === "baseline" && value === "uniform") return "all allowed combinations alike";
  if (Array.isArray(value)) return partsText(value);
  if (typeof value === "object") return labelsText(value);
  if (name === "floors") return `${f.share(value, 1)}, spread over all combinations`;
  if (name === "half_life" && typeof value === "number") return `${f.count(value)} rewards`;
  if (name === "window" && typeof value === "number") return `${f.count(value)} decisions`;
  return String(value);
}

/** A rule in words. */
export function ruleText(rule) {
  const [[kind, labels]] = Object.entries(rule);
  const single = Object.entries(labels).filter(([, label]) => !Array.isArray(label)).map(([mode, label]) => `${mode} is ${labelText(label)}`);
  if (kind === "forbid") return `Never where ${single.join(" and ")}`;
  const lists = Object.entries(labels).filter(([, label]) => Array.isArray(label)).map(([mode, some]) => `${mode} ${some.map(labelText).join(", ")}`);
  return `${single.length ? `Where ${single.join(" and ")}, only ` : "Only "}${lists.join("; ")}`;
}

const SIDES = { policy: "Decided by the bandit", holdout: "Decided by the baseline", caller: "Decided by your own rule" };
const some = (value) => f.share(value, value > 0 && value < 0.1 ? 1 : 0);

/** What differs before and after, as rows of [what, now, after]. */
function differences(found) {
  const rows = found.settings.map((one) => [settingName(one.name), settingText(one.name, one.before), settingText(one.name, one.after)]);
  for (const [side, words] of Object.entries(SIDES)) {
    const [now, after] = [found.decides.before[side], found.decides.after[side]];
    if (now !== after) rows.push([words, some(now), some(after)]);
  }
  const { before, after } = found.space;
  if (before.combinations !== after.combinations) rows.push(["Combinations", f.count(before.combinations), f.count(after.combinations)]);
  if (before.allowed !== after.allowed) rows.push(["Combinations that may be chosen", f.share(before.allowed, 1), f.share(after.allowed, 1)]);
  return rows;
}

const PLACES = {
  settings: ["PATCH", ""], add_level: ["POST", "/levels"], retire_level: ["POST", "/levels/retire"], restore_level: ["POST", "/levels/restore"],
  describe: ["POST", "/features"], split_region: ["POST", "/regions/split"], add_rule: ["POST", "/rules"], remove_rule: ["POST", "/rules/remove"],
};
const INVERSE = { add_level: "retire_level", retire_level: "restore_level", restore_level: "retire_level", add_rule: "remove_rule", remove_rule: "add_rule" };

function inverse(kind, body, found) {
  if (kind === "settings") return { kind, body: Object.fromEntries(found.settings.map((one) => [one.name, one.before])) };
  if (!INVERSE[kind]) return null; // a region that was split stays split
  return { kind: INVERSE[kind], body: kind === "add_level" ? { mode: body.mode, label: body.label } : body };
}

const done = new Map(); // by bandit: changes made from here, newest first, while the page is open

/** Changes of one bandit, by somebody who may make them; `changed(detail)` is told after each. */
export class Steering {
  constructor(name, who, changed) {
    Object.assign(this, { name, who, changed, may: maySteer(who) });
  }

  /** What was changed from here, newest first: { words, at, inverse, undone }. */
  get made() {
    if (!done.has(this.name)) done.set(this.name, []);
    return done.get(this.name);
  }

  send(kind, body) {
    const [method, place] = PLACES[kind];
    return api.send(method, `${api.banditPath(this.name)}${place}`, body);
  }

  /**
   * Show what a change would do, and make it if that is confirmed; returns whether it was.
   * `words` says what was done, `title` and `button` name it in the dialog, `notes` say more; `back` is the body that
   * undoes it, where that does not follow.
   */
  async change(kind, body, { title, button, words, notes = [], danger = false, back = null }) {
    const preview = await api.post(`${api.banditPath(this.name)}/preview`, { [kind]: body });
    const rows = differences(preview);
    if (!preview.changes) {
      toast("Nothing would change: it is so already.");
      return false;
    }
    const shown = rows.length ? table([{ title: "what" }, { title: "now" }, { title: "after" }], rows, "What changes") : null;
    return ask({ title, danger, button, parts: [shown, ...notes.map((note) => h("p", {}, note))], act: () => this.make(kind, body, words, back ? { kind, body: back } : inverse(kind, body, preview)) });
  }

  async make(kind, body, words, back) {
    const detail = await this.send(kind, body);
    if (!back) {
      toast(`${words}.`);
      this.changed(detail);
      return;
    }
    const entry = { words, at: Date.now() / 1000, inverse: back, undone: false };
    this.made.unshift(entry);
    toast(`${words}.`, { text: back.kind === "retire_level" && kind === "add_level" ? "Undo (retire it)" : "Undo", act: () => this.undo(entry) });
    this.changed(detail);
  }

  async undo(entry) {
    try {
      const detail = await this.send(entry.inverse.kind, entry.inverse.body);
      entry.undone = true;
      toast(`Undone: ${entry.words}.`);
      this.changed(detail);
    } catch (error) {
      toast(`It cannot be undone: ${error.message}`);
    }
  }

  pause(paused, apprentice) {
    const rest = apprentice ? "your own rule decides" : "the baseline decides";
    return paused
      ? this.change("settings", { paused: true }, { title: `Pause ${this.name}?`, button: "Pause", words: `${this.name} is paused`, notes: [`From the next decision on ${rest}, on all servers, until somebody lets the bandit go on. Rewards are learned from all the same, and what was learned stays.`] })
      : this.change("settings", { paused: false }, { title: `Let ${this.name} go on?`, button: "Go on", words: `${this.name} goes on`, notes: ["From the next decision on the bandit decides again, by what it has learned meanwhile."] });
  }
}
