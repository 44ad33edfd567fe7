// Who decides, the settings of a bandit, and its end: what a person with the right key may change.

import * as api from "./api.js";
import { ask, toast } from "./dialog.js";
import { fill, h, table } from "./dom.js";
import { action, field, percent, shareRows, text } from "./fields.js";
import * as f from "./format.js";
import { explained, settingName, settingText } from "./steer.js";

const STEPS = [0.01, 0.05, 0.2, 0.5, 1];

/** Buttons of a gradual start: for which share of visitors the bandit decides. */
export function gradual(steering, rollout) {
  const go = (share) => steering.change("settings", { rollout: share }, share ? {
    title: `Let the bandit decide for ${f.share(share)} of the visitors?`, button: `Set ${f.share(share)}`, words: `The bandit decides for ${f.share(share)} of the visitors`,
    notes: [share < 1 ? "They are drawn at random, so that both sides can be compared. Your own rule decides for the others, and your code goes on as it is." : "Your own rule decides nothing any more, so nothing is compared from then on, unless there is a holdout."],
  } : { title: "Only watch again?", button: "Only watch", words: "The bandit only watches", notes: ["Your own rule decides everything. What was learned stays."] });
  return h("div", { class: "steps", role: "group", "aria-label": "Share of visitors the bandit decides for" },
    [0, ...STEPS].map((share) => action(share ? f.share(share) : "0 %: only watch", () => go(share), { pressed: share === (rollout ?? 0) })));
}

/** From an apprentice to a bandit that decides alone, or back. */
export function alone(steering, apprentice) {
  return apprentice
    ? action("Switch the bandit on …", () => steering.change("settings", { apprentice: false }, { title: "Switch the bandit on?", button: "Switch it on", words: "The bandit decides by itself", notes: ["From the next decision on ask answers with the bandit's own choice, and a request that still gives the choice of your rule (played) is refused. Change your code first, or keep to 100 % of the gradual start."] }), { main: true })
    : action("Run beside your own rule …", () => steering.change("settings", { apprentice: true }, { title: "Run beside your own rule?", button: "Run beside it", danger: true, words: "The bandit runs beside your own rule", notes: ["Your rule decides, and the bandit learns and says what it would have played. Each request must then give what your rule plays (played); one that does not is refused. To stop the bandit without changing code, pause it."] }));
}

export function control({ name, who, changed, steering }) {
  const decides = h("section", { class: "card" });
  const form = h("section", { class: "card" });
  const recent = h("section", { class: "card" });
  const end = h("section", { class: "card" });
  let key = null;

  function show(detail) {
    showRecent();
    const next = JSON.stringify([detail.settings, detail.paused, detail.apprentice, detail.rollout, Object.values(detail.levels).map((some) => some.length)]);
    if (next === key) return;
    key = next;
    showDecides(detail);
    fill(form, h("h3", {}, "Settings"), steering.may ? [settings(detail, steering)] : [table([{ title: "setting" }, { title: "is" }], facts(detail), "Settings"), explained(who)]);
    fill(end, h("h3", {}, "Delete"), steering.may ? [h("p", {}, "Ends the bandit for good: it decides nothing any more, and cannot be brought back from here. Its events stay in the store."), action("Delete this bandit …", () => remove(name, detail, steering), { danger: true })] : [explained(who, "change a bandit")]);
    end.hidden = !steering.may;
  }

  function showDecides(detail) {
    const { apprentice, paused, rollout } = detail;
    const words = paused ? `Paused: ${apprentice ? "your own rule" : "the baseline"} makes all decisions, and the bandit goes on learning.`
      : !apprentice ? `The bandit decides${detail.settings.holdout ? `, but for ${f.share(detail.settings.holdout)} that are held out for the baseline, so that its uplift is known` : ". Nothing is held out for a baseline, so its uplift cannot be known: see Settings"}.`
        : rollout ? `A gradual start: the bandit decides for ${f.share(rollout)} of the visitors, drawn at random, and your own rule for the others.` : "The bandit only watches: your own rule decides, and the bandit learns beside it.";
    fill(decides, h("h3", {}, "Who decides"), h("p", {}, words),
      steering.may ? [
        apprentice && h("p", { class: "faint" }, "Gradual start: for which share of visitors the bandit decides."), apprentice && gradual(steering, rollout),
        h("div", { class: "steps" }, action(paused ? "Let it go on …" : "Pause …", () => steering.pause(!paused, apprentice), { main: paused }), alone(steering, apprentice)),
        !apprentice && h("p", { class: "faint" }, "A gradual start, for 1, 5, 20 or 50 % of visitors, is for a bandit that runs beside your own rule.")] : explained(who));
  }

  function showRecent() {
    const made = steering.made;
    recent.hidden = !made.length;
    fill(recent, h("h3", {}, "Changed from here"), h("p", { class: "faint" }, "While this page is open. Each can be undone."),
      h("ul", { class: "plain" }, made.map((one) => h("li", { class: "row" }, h("span", {}, one.undone ? h("s", {}, one.words) : one.words, h("span", { class: "faint" }, ` ${f.clock(one.at)}`)),
        one.undone ? h("span", { class: "faint" }, "undone") : action("Undo", () => steering.undo(one), { label: `Undo: ${one.words}` })))));
  }

  const element = h("div", { class: "control" }, decides, recent, form, end);
  return { load: (signal) => api.get(api.banditPath(name), signal), element, show, renew: () => changed(), seconds: 30, always: true };
}

const SHOWN = ["paused", "apprentice", "rollout", "holdout", "baseline", "window", "default", "half_life", "floors", "ceilings"];

function facts(detail) {
  const fixed = Object.entries(detail.settings).filter(([name]) => !SHOWN.includes(name));
  return [...SHOWN.map((name) => [settingName(name), settingText(name, detail.settings[name])]), ...fixed.map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)])];
}

const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** Shares as rows, in whatever form they were given. */
function parts(given) {
  if (given === null || given === undefined || given === "uniform") return [];
  if (typeof given === "number") return given ? [{ labels: {}, share: given }] : [];
  return Array.isArray(given) ? given : [{ labels: given, share: 1 }];
}

/** The fields of settings, each as `given` is set; `read()` is what they say. */
export function settingFields(levels, given) {
  const holdout = percent(given.holdout ?? 0, { max: "99.9" });
  const window = text(given.window ?? "");
  const rewards = h("input", { type: "number", step: "any", value: given.default ?? "" });
  const half = text(given.half_life ?? "");
  const baseline = shareRows("What the baseline plays", levels, parts(given.baseline), "Without rows, all combinations that are allowed, each as often. The shares add up to 100 %.");
  const floors = shareRows("Gets at least", levels, parts(given.floors), "Shares of decisions that combinations have whatever the bandit believes.");
  const ceilings = shareRows("Gets at most", levels, parts(given.ceilings), "Shares that combinations never exceed.");
  const listed = (rows) => rows.read().map(({ labels, share }) => ({ labels, share }));
  return {
    elements: [h("div", { class: "fields" },
      field("Held out for the baseline, percent", holdout.input, "The share of decisions that the baseline makes, drawn at random, so that the uplift is known. 5 is usual, 0 for none."),
      field("A decision waits for its reward", window, "Such as 10 min, 36 h, 14 d, or a number of decisions. Empty: as long as it takes."),
      field("Reward when the wait has ended", rewards, "Such as 0, where no click means 0. Empty: none is told."),
      field("A reward counts half after", half, "Such as 14 d, or a number of rewards: the bandit forgets the past. Empty: it forgets nothing.")),
    baseline.element, h("details", {}, h("summary", {}, "Smallest and largest shares"), floors.element, ceilings.element)],
    read() {
      const span = (input) => {
        const value = input.value.trim();
        return value === "" ? null : /^\d+$/.test(value) ? Number(value) : value;
      };
      const found = {
        holdout: holdout.read() ?? 0, window: span(window), half_life: span(half), default: rewards.value === "" ? null : Number(rewards.value),
        baseline: listed(baseline), floors: listed(floors), ceilings: listed(ceilings),
      };
      return found;
    },
  };
}

/** What of the fields is another than it was, as the service takes it. */
function edited(found, given) {
  const now = { ...given, holdout: given.holdout ?? 0 };
  const changes = {};
  for (const name of ["holdout", "window", "half_life", "default"]) if (!same(found[name], now[name])) changes[name] = found[name];
  for (const name of ["baseline", "floors", "ceilings"]) if (!same(found[name], parts(given[name]))) changes[name] = found[name].length ? found[name] : null;
  return changes;
}

function settings(detail, steering) {
  const fields = settingFields(detail.levels, detail.settings);
  const fixed = facts(detail).filter(([name]) => !SHOWN.some((one) => settingName(one) === name));
  const save = action("Show what changes …", async () => {
    const changes = edited(fields.read(), detail.settings);
    if (!Object.keys(changes).length) throw new Error("Nothing was changed in the fields above.");
    await steering.change("settings", changes, { title: "Change settings?", button: "Change", words: `Changed: ${Object.keys(changes).map((name) => settingName(name).toLowerCase()).join(", ")}`, notes: ["From the next decision on. Decisions that were made keep the window that they began with."] });
  }, { main: true });
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); save.querySelector("button").click(); } }, fields.elements, save);
  return h("div", {}, form, fixed.length ? h("details", {}, h("summary", {}, "What cannot be changed"), h("p", { class: "faint" }, "It was set when the bandit was made; for another, make another bandit."), table([{ title: "setting" }, { title: "is" }], fixed, "What cannot be changed")) : null);
}

/** Ask for the name, and delete the bandit. */
async function remove(name, detail, steering) {
  const typed = text("");
  const gone = await ask({
    title: `Delete ${name}?`, danger: true, button: "Delete for good",
    parts: [h("p", {}, `It has made ${f.count(detail.decisions)} decisions and learned from ${f.count(detail.rewards)} rewards. Requests for it will be refused. This cannot be undone.`), field(`Type its name, ${name}`, typed)],
    ready: () => typed.value === name,
    act: () => api.remove(api.banditPath(name)),
  });
  if (!gone) return;
  steering.made.length = 0; // a bandit that gets its name has no changes to undo
  window.location.hash = "#/";
  toast(`${name} was deleted.`);
}
