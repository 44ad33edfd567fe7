// The history: who changed what and when, the story of one decision, and the last events as they come.

import * as api from "./api.js";
import { chooser, empty, fill, h, table } from "./dom.js";
import * as f from "./format.js";
import { action } from "./fields.js";
import { settingName, settingText } from "./steer.js";

export const EVENTS = {
  Created: "created", Changed: "settings changed", Deleted: "deleted", Decided: "decided", Activated: "shown", Cancelled: "cancelled", Rewarded: "rewarded", Amended: "reward amended",
  TimedOut: "window ended", Told: "told without a decision", LevelAdded: "level added", LevelRetired: "level retired", LevelRestored: "level restored", Described: "features changed", RegionsLearned: "regions learned", RegionSplit: "region split", RuleChanged: "rule", Imported: "log imported",
  Skipped: "event left out", Unchanged: "repeated", Forgotten: "forgotten",
};
const OF_DECISIONS = ["Decided", "Activated", "Cancelled", "Rewarded", "Amended", "TimedOut", "Told", "Unchanged"];
const KINDS = [
  { value: "", text: "everything" },
  { value: "Changed,Created", text: "settings" },
  { value: "LevelAdded,LevelRetired,LevelRestored,Described", text: "levels and features" },
  { value: "RuleChanged", text: "rules" },
  { value: "Imported", text: "logs imported" },
  { value: "Skipped,Forgotten", text: "left out or forgotten" },
];
const PAGE = 25; // changes that are shown at once
const DAY = 86400;

export function events({ name, steering }) {
  const changes = history(name, steering);
  const story = decision(name);
  let paused = false;
  let newest = -1; // the last event that was shown
  const list = h("div");
  const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    fill(button, paused ? "Go on" : "Pause this list");
  } }, "Pause this list");

  function show(found) {
    const changed = found.events.some((one) => one.seq > newest && !OF_DECISIONS.includes(one.kind));
    if (newest < 0 || changed) changes.load();
    newest = Math.max(newest, found.events[0]?.seq ?? 0);
    if (paused) return;
    if (!found.events.length) {
      list.replaceChildren(empty("No events", h("p", {}, "They were folded away, or none has come.")));
      return;
    }
    const columns = [{ title: "number", number: true }, { title: "time" }, { title: "event" }, { title: "what" }, { title: "who" }, { title: "reward", number: true }, { title: "probability", number: true }, { title: "decision" }];
    const rows = found.events.map((one) => [f.count(one.seq), f.clock(one.time), kindOf(one), said(one), who(one), one.reward === null ? "" : f.number(one.reward), one.propensity === null ? "" : f.number(one.propensity), one.decision ? h("code", {}, one.decision) : ""]);
    const before = list.querySelector(".scroll")?.scrollLeft ?? 0;
    list.replaceChildren(table(columns, rows, "The last events, newest first"));
    list.firstChild.scrollLeft = before;
  }

  const last = h("section", { class: "card" }, h("div", { class: "row" }, h("h3", {}, "The last events"), button), list);
  return { what: "events", element: h("div", {}, changes.element, story.element, last), show, always: true };
}

// Changes.

function history(name, steering) {
  const path = `${api.banditPath(name)}/changes`;
  const list = h("div", { "aria-live": "polite" });
  const pages = h("div", { class: "row" });
  const controls = h("div", { class: "controls" });
  const given = { kind: "", actor: "", since: "", until: "" };
  let before = []; // where the pages begin that were turned to, the last one is shown
  let actors = null; // that can be chosen

  function query() {
    const found = new URLSearchParams();
    for (const kind of given.kind.split(",").filter(Boolean)) found.append("kind", kind);
    if (given.actor) found.set("actor", given.actor);
    if (given.since) found.set("since", String(new Date(`${given.since}T00:00`) / 1000));
    if (given.until) found.set("until", String(new Date(`${given.until}T00:00`) / 1000 + DAY));
    return found;
  }

  function choose(what, value) {
    given[what] = value;
    before = [];
    load();
  }

  function day(label, what) {
    const input = h("input", { type: "date", value: given[what], onchange: () => choose(what, input.value) });
    return h("label", { class: "field" }, h("span", {}, label), input);
  }

  function drawControls(found) {
    if (actors !== null && actors.join("\n") === found.actors.join("\n")) return;
    actors = found.actors;
    controls.replaceChildren(
      chooser("What", KINDS, given.kind, (value) => choose("kind", value)),
      chooser("By whom", [{ value: "", text: "anybody" }, ...actors.map((one) => ({ value: one, text: one }))], given.actor, (value) => choose("actor", value)),
      day("From", "since"), day("To", "until"), save("CSV", "csv"), save("JSON lines", "jsonl"));
  }

  function save(title, format) {
    return h("button", { type: "button", onclick: () => {
      const wanted = query();
      wanted.set("format", format);
      api.download(`${path}/export?${wanted}`, `${name}-changes.${format}`).catch(wrong);
    } }, `Save as ${title}`);
  }

  const wrong = (error) => list.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));

  async function load() {
    const wanted = query();
    wanted.set("limit", String(PAGE));
    if (before.length) wanted.set("before", String(before.at(-1)));
    try {
      const found = await api.get(`${path}?${wanted}`);
      drawControls(found);
      draw(found);
    } catch (error) {
      wrong(error);
    }
  }

  function draw(found) {
    const columns = [{ title: "when" }, { title: "who" }, { title: "event" }, { title: "what" }, { title: "before" }, { title: "after" }, ...(steering.may ? [{ title: "put back" }] : [])];
    const rows = found.changes.flatMap((one) => withWayBack(rowsOf(one), one, steering));
    const none = given.kind || given.actor || given.since || given.until ? "No change fits these choices." : "Nothing was changed yet.";
    list.replaceChildren(rows.length ? table(columns, rows, "Changes, newest first") : h("p", {}, none), ...notes(found));
    const turn = (title, next, shown) => h("button", { type: "button", disabled: !shown, onclick: () => {
      before = next;
      load();
    } }, title);
    fill(pages, turn("Newer", before.slice(0, -1), before.length), h("span", { class: "faint" }, `${f.count(found.total)} ${found.total === 1 ? "change" : "changes"}`), turn("Older", [...before, found.next], found.next !== null));
  }

  const element = h("section", { class: "card" }, h("h3", {}, "Who changed what"), h("p", { class: "sentence" }, "All changes but decisions and rewards, newest first."), controls, list, pages);
  return { element, load };
}

function notes(found) {
  const said = [];
  if (found.since) said.push(`Changes up to event ${f.count(found.since)} are not known: they were folded away by an early release.`);
  if (found.lost) said.push(`The ${f.count(found.lost)} oldest changes are kept no more.`);
  return said.map((words) => h("p", { class: "faint" }, words));
}

/** The rows of a change with a button that puts back what was before, for those who may. */
function withWayBack(rows, one, steering) {
  if (!steering.may) return rows;
  const back = () => {
    const [[kind, body]] = Object.entries(one.undo);
    const rest = kind === "retire_level" && one.kind === "LevelAdded" ? ["A level cannot be taken away again: it is retired."] : [];
    return steering.change(kind, body, { title: "Put this back?", button: "Put it back", words: `Put back: ${one.words}`, notes: [`It was changed ${f.clock(one.time)}: ${one.words}.`, ...rest] });
  };
  const button = one.undo ? action("Put back …", back, { label: `Put back: ${one.words}` }) : "";
  return rows.map((row, at) => [...row, at ? "" : button]);
}

/** The rows of a change: one for each thing that was changed, or its sentence. */
function rowsOf(one) {
  const start = [f.clock(one.time), who(one), kindOf(one)];
  if (one.kind === "Created") return [[...start, h("details", {}, h("summary", {}, one.words), h("ul", {}, one.items.map((item) => h("li", {}, `${item.what}: ${plain(item.after)}`)))), "", ""]];
  if (!one.items.length) return [[...start, one.words, "", ""]];
  const value = (some) => (some === null ? "–" : plain(some));
  const settings = one.kind === "Changed"; // in the words of the page that changes them
  const cells = (item) => (settings ? [settingName(item.what), settingText(item.what, item.before), settingText(item.what, item.after)] : [item.what, value(item.before), value(item.after)]);
  return one.items.map((item, at) => [...(at ? ["", "", ""] : start), ...cells(item)]);
}

/** A value of a setting in words. */
function plain(value) {
  if (value === null || value === undefined) return "not set";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "number") return f.number(value);
  if (Array.isArray(value)) return value.map((part) => (part?.labels ? `${plain(part.labels)}: ${f.share(part.share, 1)}` : plain(part))).join(", ") || "none";
  if (typeof value === "object") return Object.entries(value).map(([mode, label]) => `${mode} ${plain(label)}`).join(", ") || "all";
  return String(value);
}

// One decision.

function decision(name) {
  const found = h("div", { "aria-live": "polite" });
  const field = h("input", { type: "text", required: true, maxlength: 200, spellcheck: "false", autocomplete: "off" });
  const form = h("form", { class: "controls" }, h("label", { class: "field" }, h("span", {}, "Decision id"), field), h("button", { type: "submit" }, "Look it up"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      draw(await api.get(`${api.banditPath(name)}/decisions/${encodeURIComponent(field.value.trim())}`));
    } catch (error) {
      found.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    }
  });

  function draw(one) {
    const labels = (some) => Object.entries(some).map(([mode, label]) => `${mode} ${plain(label)}`).join(" · ");
    const sentence = [labels(one.context) && `Given ${labels(one.context)}`, `${one.by === "policy" ? "the bandit" : `the ${one.by}`} chose ${labels(one.arm)}`, one.propensity === null ? null : `with probability ${f.number(one.propensity)}`, `now ${one.status}${one.reward === null ? "" : `, reward ${f.number(one.reward)}`}`].filter(Boolean).join(", ");
    const columns = [{ title: "when" }, { title: "event" }, { title: "who" }, { title: "reward", number: true }];
    const rows = one.story.map((part) => [f.clock(part.time), kindOf(part), who(part), part.reward === null ? "" : f.number(part.reward)]);
    found.replaceChildren(h("p", {}, `${sentence}.`), table(columns, rows, `The story of decision ${one.id}`));
  }

  return { element: h("section", { class: "card" }, h("h3", {}, "The story of a decision"), form, found) };
}

// What events say.

const who = (one) => one.actor ?? h("span", { class: "faint" }, "not known");

const kindOf = (one) => h("span", { class: `kind ${one.kind}` }, EVENTS[one.kind] ?? one.kind);

function said(one) {
  const parts = [one.labels?.join(" · "), one.by && one.by !== "policy" ? `by the ${one.by}` : null, one.would ? `the bandit would: ${one.would.join(" · ")}` : null, one.words || null];
  return parts.filter(Boolean).join("; ");
}
