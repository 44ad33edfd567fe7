// What levels are like: features as people paste them, shown as a table, and fields for those of a new level.

import * as api from "./api.js";
import { rows } from "./csv.js";
import { fill, h, table } from "./dom.js";
import { action, field, text } from "./fields.js";
import * as f from "./format.js";
import { labelText } from "./steer.js";

const MOST = 100; // levels that are listed, and features for which there is a field each
const WORDS = { number: "a number", truth: "true or false", numbers: "a list such as [0.1, 0.7]", category: "text", text: "text" };
const isNumber = (words) => /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(words);
const isTruth = (words) => /^(true|false)$/i.test(words);

/** What the values of a column are, as far as they show. */
function kindOf(values) {
  const known = values.filter((one) => one !== "");
  if (known.length && known.every(isNumber)) return "number";
  if (known.length && known.every(isTruth)) return "truth";
  return known.length && known.every((one) => one.startsWith("[")) ? "numbers" : "text";
}

/** A value as a request has it; nothing is missing. */
function read(words, kind, name) {
  const written = words.trim();
  if (written === "") return null;
  if (kind === "number" && isNumber(written)) return Number(written);
  if (kind === "truth" && isTruth(written)) return written.toLowerCase() === "true";
  if (kind === "numbers") {
    try {
      return JSON.parse(written);
    } catch {
      throw new Error(`“${written}” is no list of numbers for ${name}: write it as [0.1, 0.7].`);
    }
  }
  if (["category", "text"].includes(kind)) return written;
  throw new Error(`“${written}” is not ${WORDS[kind]}, as ${name} is.`);
}

/** Levels with their features, from a pasted table: its first column has labels, its first line names. */
export function pastedFeatures(words, labels, known = []) {
  const [header, ...body] = rows(words.trim());
  if (!header || header.length < 2 || !body.length) throw new Error("Paste a table: the first line names the level and its features, and each other line is a level.");
  const names = header.map((one) => one.trim());
  const kinds = names.map((name, at) => known.find((one) => one.name === name)?.kind ?? kindOf(body.map((row) => (row[at] ?? "").trim())));
  return body.map((row) => {
    const label = labels.find((one) => labelText(one) === row[0].trim());
    if (label === undefined) throw new Error(`“${row[0].trim()}” is no level here; the levels are ${f.listed(labels.slice(0, 6).map(labelText))}${labels.length > 6 ? ", …" : ""}.`);
    return { label, features: Object.fromEntries(names.slice(1).map((name, at) => [name, read(row[at + 1] ?? "", kinds[at + 1], name)])) };
  });
}

/** Fields for the features of a new level; `read()` is its values by name, or undefined where there are none. */
export function featureFields(known) {
  const some = known.slice(0, MOST).map((one) => ({ ...one, input: text("", { placeholder: WORDS[one.kind] }) }));
  return {
    elements: some.map((one) => field(one.name, one.input)),
    clear: () => some.forEach((one) => { one.input.value = ""; }),
    read: () => (known.length ? Object.fromEntries(some.filter((one) => one.input.value.trim() !== "").map((one) => [one.name, read(one.input.value, one.kind, one.name)])) : undefined),
  };
}

/** What is said of the features of a mode, with what they are, and a form to change them. */
export function featuresOf(name, mode, some, known, steering) {
  const path = `${api.banditPath(name)}/features?mode=${encodeURIComponent(mode)}`;
  const place = h("div");
  const words = known.length ? `Features: ${f.listed(known.slice(0, 4).map((one) => one.name))}${known.length > 4 ? `, and ${f.count(known.length - 4)} more` : ""}` : "Features: none";
  const element = h("details", { class: "features" }, h("summary", {}, words), place);

  async function show() {
    const found = await api.get(path);
    const shown = (value) => (value === undefined ? "–" : Array.isArray(value) ? `${f.count(value.length)} numbers` : String(value));
    const columns = found.features.slice(0, 12);
    const lines = found.levels.slice(0, MOST).map((one) => [labelText(one.label), ...columns.map((feature) => shown(one.features[feature.name]))]);
    fill(place, known.length ? table([{ title: mode }, ...columns.map((one) => ({ title: one.name, number: one.kind === "number" }))], lines, `Features of ${mode}`) : h("p", { class: "faint" }, "What levels are like: price, brand, colour. A new level starts from what was learned of those that it resembles."),
      known.some((one) => one.missing) && h("p", { class: "faint" }, `Missing: ${f.listed(known.filter((one) => one.missing).map((one) => `${one.name} of ${f.count(one.missing)}`))}.`),
      found.levels.length > MOST && h("p", { class: "faint" }, `${f.count(found.levels.length - MOST)} more levels.`), steering.may && form(found));
  }

  function form(found) {
    const pasted = h("textarea", { rows: "4", spellcheck: "false", placeholder: `${mode},price,brand\n${labelText(some[0].label)},9.9,Acme` });
    const anew = h("input", { type: "checkbox" });
    const set = action("Set features …", async () => {
      const all = anew.checked || !known.length;
      const body = { mode, levels: pastedFeatures(pasted.value, some.map((one) => one.label), all ? [] : known), anew: all };
      const notes = [`Of ${f.count(body.levels.length)} levels: ${f.listed(Object.keys(body.levels[0].features))}.`, all ? "What they say is learned from all rewards so far." : "What was learned of these features stays."];
      if (await steering.change("describe", body, { title: `Set features of ${mode}?`, button: "Set them", words: `Set features of ${mode}`, notes, back: undoing(body, found) })) pasted.value = "";
    });
    return h("form", { onsubmit: (event) => event.preventDefault() }, field("Paste a table", pasted, "From a spreadsheet or a CSV file: the first line names the level and its features. Empty fields are missing."),
      known.length > 0 && h("label", { class: "check" }, anew, " in the place of all features"), set);
  }

  element.addEventListener("toggle", () => { if (element.open) show().catch((error) => fill(place, h("p", { class: "wrong", role: "alert" }, error.message))); });
  return element;
}

/** The body that puts features back to what they were. */
function undoing(body, found) {
  if (!found.features.length) return { mode: body.mode, levels: null };
  if (body.anew) return { mode: body.mode, levels: found.levels, anew: true };
  const before = (label) => found.levels.find((one) => labelText(one.label) === labelText(label)).features;
  return { mode: body.mode, levels: body.levels.map(({ label, features }) => ({ label, features: Object.fromEntries(Object.keys(features).map((name) => [name, before(label)[name] ?? null])) })) };
}
