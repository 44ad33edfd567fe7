// Levels of each mode, and rules of what may be combined.

import * as api from "./api.js";
import { ask } from "./dialog.js";
import { fill, h } from "./dom.js";
import { featureFields, featuresOf } from "./features.js";
import { action, field, labelsPicker, levelPicker, text } from "./fields.js";
import * as f from "./format.js";
import { explained, labelText, ruleText } from "./steer.js";

const MOST = 100; // levels that are listed; of more, one searches

export function levels({ name, who, changed, steering }) {
  const modes = h("div", { class: "masonry" });
  const rules = h("section", { class: "card" });
  let key = null;

  function show(detail) {
    const next = JSON.stringify([detail.levels, detail.regions, detail.features, detail.rules]);
    if (next === key) return;
    key = next;
    fill(modes, Object.entries(detail.levels).map(([mode, some]) => modeCard(mode, some, detail, steering)));
    showRules(detail);
  }

  function showRules(detail) {
    fill(rules, h("h3", {}, "Rules"),
      detail.rules.length ? h("ul", { class: "plain" }, detail.rules.map((rule, at) => h("li", { class: "row" },
        h("span", {}, ruleText(rule), h("span", { class: "faint" }, ` – forbids ${f.share(detail.rule_shares[at], 1)} of all combinations`)),
        steering.may && action("Remove …", () => steering.change("remove_rule", rule, { title: "Remove this rule?", button: "Remove", words: `Removed the rule: ${ruleText(rule)}`, notes: [ruleText(rule)] }), { label: `Remove the rule: ${ruleText(rule)}` }))))
        : h("p", { class: "faint" }, "None: every combination may be chosen."),
      steering.may ? [ruleForm(detail, steering)] : explained(who));
  }

  const element = h("div", {}, steering.may ? null : explained(who), modes, rules);
  return { load: (signal) => api.get(api.banditPath(name), signal), element, show, renew: () => changed(), seconds: 30, always: true };
}

function modeCard(mode, some, detail, steering) {
  const given = detail.context.includes(mode);
  const features = detail.features[mode] ?? [];
  const regions = detail.regions[mode]; // of a mode of numbers
  const list = h("ul", { class: "plain levels" });
  const search = text("", { placeholder: "search", "aria-label": `Search the levels of ${mode}`, oninput: () => draw() });
  const note = h("p", { class: "faint" });

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const found = some.filter((one) => labelText(one.label).toLowerCase().includes(wanted));
    fill(list, found.slice(0, MOST).map((one) => row(one)));
    fill(note, found.length > MOST ? `${f.count(found.length - MOST)} more: search for them.` : found.length ? "" : "No level has this in its name.");
  }

  function row({ label, retired }) {
    const words = labelText(label);
    const body = { mode, label };
    if (regions) return regionRow(mode, words, retired, regions, steering);
    const button = retired
      ? action("Restore …", () => steering.change("restore_level", body, { title: `Restore ${words}?`, button: "Restore", words: `Restored ${mode} = ${words}`, notes: ["It may be chosen again, with all that was learned of it."] }), { label: `Restore ${mode} ${words}` })
      : action("Retire …", () => steering.change("retire_level", body, { title: `Retire ${words}?`, button: "Retire", words: `Retired ${mode} = ${words}`, notes: [given ? "Requests that give it are refused. Rewards of earlier decisions are still taken." : "It is chosen no more. Rewards of earlier decisions are still taken, and what was learned of it stays."] }), { label: `Retire ${mode} ${words}` });
    return h("li", { class: "row" }, h("span", {}, retired ? h("s", {}, words) : words, retired && h("span", { class: "faint" }, " retired")), steering.may && button);
  }

  draw();
  const retired = some.filter((one) => one.retired).length;
  return h("section", { class: "card" },
    h("div", { class: "row" }, h("h3", {}, regions ? `${mode} (numbers: ${regions.numbers.join(", ")})` : given ? `${mode} (given)` : mode), h("span", { class: "faint" }, `${f.count(some.length - retired)} levels${retired ? `, ${f.count(retired)} retired` : ""}`)),
    regions?.learning && h("p", { class: "faint" }, `Regions are learned from the first ${f.count(regions.requests)} requests that bring numbers; ${f.count(regions.seen)} so far. Until then there is one for all.`),
    some.length > 12 ? search : null, list, note, regions ? null : [featuresOf(detail.name, mode, some, features, steering), steering.may ? levelForm(mode, some, features, steering) : null]);
}

/** A region of numbers: it is split in two rather than retired. */
function regionRow(mode, words, retired, regions, steering) {
  const may = steering.may && !retired && !regions.learning && !words.endsWith(" missing");
  const split = may && action("Split …", () => {
    const at = h("input", { type: "number", step: "any", placeholder: "its middle" });
    const number = regions.numbers.length > 1 && h("select", {}, regions.numbers.map((one) => h("option", {}, one)));
    return ask({
      title: `Split ${words}?`, button: "Split",
      parts: [number && field("At a value of", number), field("At", at, "Empty: at its middle."), h("p", {}, "Both parts start like it, with half of what was told of it. It stays as a retired level with its own rewards. A split cannot be undone.")],
      act: () => steering.make("split_region", { mode, region: words, ...(at.value === "" ? {} : { at: Number(at.value) }), ...(number ? { number: number.value } : {}) }, `Split ${words}`, null),
    });
  }, { label: `Split ${mode} ${words}` });
  return h("li", { class: "row" }, h("span", {}, retired ? h("s", {}, words) : words, retired && h("span", { class: "faint" }, " replaced by its parts")), split);
}

/** The kind of label that a mode has: numbers if all of its levels are numbers. */
const typed = (some, words) => (some.length && some.every((one) => typeof one.label === "number") && words.trim() !== "" && Number.isFinite(Number(words)) ? Number(words) : words);

function levelForm(mode, some, features, steering) {
  const label = text("", { required: true });
  const like = levelPicker("Starts like", some, { any: "no other" });
  const alike = featureFields(features);
  const add = action("Add …", async () => {
    const words = label.value.trim();
    if (!words) throw new Error("Give the new level a name.");
    const start = like.read();
    const body = { mode, label: typed(some, words), ...(start === undefined ? {} : { like: start }) };
    const values = alike.read();
    if (values) body.features = values;
    const described = values && Object.keys(values).length > 0;
    const notes = [start === undefined ? (described ? "It starts from what was learned of its features." : "Nothing is known of it: it is tried until its rewards tell.") : `It starts as if some of the rewards of ${labelText(start)} had been its own.`, "A level cannot be taken away again, but retired."];
    if (await steering.change("add_level", body, { title: `Add ${words} to ${mode}?`, button: "Add", words: `Added ${mode} = ${words}`, notes })) {
      label.value = "";
      alike.clear();
    }
  });
  return h("form", { class: "fields inline", onsubmit: (event) => { event.preventDefault(); add.querySelector("button").click(); } }, field(`New level of ${mode}`, label), like.element, alike.elements, add);
}

function ruleForm(detail, steering) {
  const place = h("div");
  const decided = Object.keys(detail.levels).filter((mode) => !detail.context.includes(mode));
  let read = null;

  function draw(kind) {
    if (kind === "forbid") {
      const labels = labelsPicker(detail.levels);
      read = () => ({ forbid: labels.read() });
      fill(place, h("p", { class: "faint" }, "Combinations that have all of these are never chosen:"), h("div", { class: "fields" }, labels.elements));
      return;
    }
    const which = h("select", { onchange: () => only(which.value) }, decided.map((mode) => h("option", { value: mode }, mode)));
    const boxes = h("div");
    const where = h("div", { class: "fields" });
    let chosen = null;
    let labels = null;
    const only = (mode) => {
      chosen = h("select", { multiple: true, size: String(Math.min(detail.levels[mode].length, 8)) }, detail.levels[mode].map((one, at) => h("option", { value: String(at) }, labelText(one.label))));
      labels = labelsPicker(Object.fromEntries(Object.entries(detail.levels).filter(([one]) => one !== mode)));
      fill(boxes, field(`Only these of ${mode}`, chosen, "Several with Ctrl or ⌘, or with Shift."));
      fill(where, labels.elements);
    };
    only(decided[0]);
    read = () => ({ allow: { ...labels.read(), [which.value]: [...chosen.selectedOptions].map((one) => detail.levels[which.value][Number(one.value)].label) } });
    fill(place, h("div", { class: "fields" }, field("Of the mode", which), boxes), h("p", { class: "faint" }, "Where these are met (any: always):"), where);
  }

  const kind = h("select", { onchange: () => draw(kind.value) }, h("option", { value: "forbid" }, "never together"), h("option", { value: "allow" }, "only some levels"));
  const add = action("Show what it forbids …", async () => {
    const rule = read();
    const [labels] = Object.values(rule);
    if (!Object.keys(labels).length) throw new Error("Choose at least one level.");
    if (rule.allow && !rule.allow[Object.keys(rule.allow).at(-1)].length) throw new Error("Choose the levels that may be chosen.");
    await steering.change("add_rule", rule, { title: "Make this rule?", button: "Make the rule", words: `Made the rule: ${ruleText(rule)}`, notes: [ruleText(rule), "From the next decision on."] });
  });
  draw("forbid");
  return h("details", {}, h("summary", {}, "Make a rule"), h("form", { onsubmit: (event) => { event.preventDefault(); add.querySelector("button").click(); } }, field("What it says", kind), place, add));
}
