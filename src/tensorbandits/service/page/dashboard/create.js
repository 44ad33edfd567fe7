// A new bandit: its modes and levels, what a reward is, how long decisions wait; with a look at what it will be like.

import * as api from "./api.js";
import { areNumbers, columns, pasted } from "./csv.js";
import { curl } from "./curl.js";
import { ask, toast } from "./dialog.js";
import { command, fill, h, table } from "./dom.js";
import { pastedFeatures } from "./features.js";
import { action, field, percent, text } from "./fields.js";
import * as f from "./format.js";
import { explained, mayMake } from "./steer.js";

const REWARDS = {
  bernoulli: "clicks: yes or no (0 or 1)", gaussian: "any number, such as a rating", count: "counts: 0, 1, 2, …",
  revenue: "revenue: mostly 0, else an amount", "revenue-signed": "revenue that may be negative, such as refunds",
};
const LARGEST = 20e6; // bytes of a file

export function create(main, { who }) {
  document.title = "New bandit · tensorbandits";
  const place = h("div");
  main.replaceChildren(h("nav", { "aria-label": "Where you are" }, h("a", { href: "#/" }, "All bandits")), h("h1", {}, "New bandit"), place);
  fill(place, mayMake(who) ? form() : h("section", { class: "card" }, explained(who, "make a bandit")));
  return { stop() {}, redraw() {} };
}

function form() {
  const name = text("", { required: true, maxlength: "100" });
  const modes = new Modes();
  const reward = h("select", {}, Object.entries(REWARDS).map(([kind, words]) => h("option", { value: kind }, words)));
  const rate = percent(null, { placeholder: "5" });
  const window = text("30 min");
  const rest = h("input", { type: "number", step: "any", value: "0" });
  const holdout = percent(0.05, { max: "99.9" });
  const start = h("select", {}, h("option", { value: "alone" }, "decide at once"), h("option", { value: "beside" }, "run beside our own rule, which decides"));
  const shown = h("div", { class: "preview", role: "status" });

  function body() {
    const found = { name: name.value.trim(), ...modes.read(), reward: reward.value };
    if (!found.name) throw new Error("Give the bandit a name: letters, digits, dots, hyphens and underscores.");
    const span = window.value.trim();
    if (span) found.window = /^\d+$/.test(span) ? Number(span) : span;
    if (span && rest.value !== "") found.default = Number(rest.value);
    if (holdout.read()) found.holdout = holdout.read();
    if (start.value === "beside") found.apprentice = true;
    return found;
  }

  const preview = async () => {
    const found = await api.post("/v1/preview", { ...body(), ...(rate.read() ? { rate: rate.read() } : {}) });
    fill(shown, h("h2", {}, "What it will be like"), described(found));
    return found;
  };
  const look = action("Preview", preview);
  const make = action("Make it …", async () => {
    const wanted = body();
    const found = await preview();
    if (found.taken) throw new Error(`A bandit is named ${wanted.name} already; give this one another name.`);
    const made = await ask({ title: `Make ${wanted.name}?`, button: "Make it", parts: [described(found)], act: () => api.post("/v1/bandits", wanted) });
    if (!made) return;
    toast(`${wanted.name} was made.`);
    location.hash = `#/${encodeURIComponent(wanted.name)}`;
  }, { main: true });

  return h("form", { class: "create", onsubmit: (event) => { event.preventDefault(); make.querySelector("button").click(); } },
    h("section", { class: "card" }, field("Name", name, "As programs ask for it: letters, digits, dots, hyphens and underscores.")),
    h("section", { class: "card" }, h("h2", {}, "What it chooses"), h("p", { class: "faint" }, "Modes are what is combined, such as offer and channel; each has levels. A mode that is given, such as the visitor's segment, is context: it is not chosen."), modes.element),
    h("section", { class: "card" }, h("h2", {}, "What it learns from"), h("div", { class: "fields" },
      field("A reward is", reward), field("About how many decisions earn something, percent", rate.input, "Of clicks, counts and revenue; for the number of rewards that it will need."),
      field("A decision waits for its reward", window, "Such as 30 min, 36 h, 14 d, or a number of decisions. Empty: as long as it takes."), field("Reward when the wait has ended", rest, "0, where no click means 0. Empty: none is told."))),
    h("section", { class: "card" }, h("h2", {}, "How it starts"), h("div", { class: "fields" },
      field("It will", start, "Beside your own rule it learns first, and then decides for 1, 5, 20, 50 % of visitors."), field("Held out for the baseline, percent", holdout.input, "The share of decisions drawn at random among all combinations, so that the uplift is known. 0 for none."))),
    shown, h("div", { class: "steps" }, look, make),
    h("details", {}, h("summary", {}, "As a command"), byHand(body)));
}

/** The same as a line for the shell, as the fields are when it is opened. */
function byHand(body) {
  const place = h("div");
  const show = action("Show the line", () => fill(place, command(curl("POST", "/v1/bandits", body()))));
  return h("div", {}, show, place);
}

function described(found) {
  const decided = found.modes.filter((one) => !one.context);
  const rows = [
    ["Combinations", `${f.count(found.combinations)}: ${found.modes.map((one) => `${f.count(one.levels)} ${one.mode}`).join(" × ")}`],
    ["Of these it chooses among", `${f.count(found.arms)} (${decided.map((one) => one.mode).join(", ")})${found.contexts > 1 ? `, for each of ${f.count(found.contexts)} contexts` : ""}`],
    ["Decided by", [["the bandit", found.decides.policy], ["the baseline", found.decides.holdout], ["your own rule", found.decides.caller]].filter(([, share]) => share > 0).map(([side, share]) => `${side} ${f.share(share, share < 0.1 ? 1 : 0)}`).join(", ")],
    ["Rewards until levels that differ by 30 % mostly show", found.rewards === null ? "none: there is nothing to tell apart" : `about ${f.about(found.rewards)}${found.rate === null ? "" : `, if ${f.share(found.rate, 1)} of decisions earn something`}`],
  ];
  return table([{ title: "what" }, { title: "is" }], rows, "What it will be like");
}

/** The modes of a new bandit: rows of a name, levels, and whether it is given. */
class Modes {
  constructor() {
    this.rows = [];
    this.list = h("div", { class: "rows" });
    const file = h("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv" });
    const wrong = h("p", { class: "wrong", role: "alert" });
    file.addEventListener("change", async () => {
      fill(wrong, "");
      try {
        const [one] = file.files;
        if (!one) return;
        if (one.size > LARGEST) throw new Error(`The file has ${f.count(one.size / 1e6)} MB; give one of at most 20 MB, with a row for each combination or level.`);
        const found = columns(await one.text());
        for (const row of [...this.rows]) if (!row.name.value.trim() && !row.levels.value.trim()) this.remove(row);
        found.forEach((column) => this.add(column.name, column.levels));
        toast(`${f.count(found.length)} columns were read. Remove those that are no mode, such as the reward.`);
      } catch (error) {
        fill(wrong, error.message);
      }
      file.value = "";
    });
    this.add();
    this.add();
    this.element = h("div", {}, this.list, h("div", { class: "steps" }, h("button", { type: "button", onclick: () => this.add().name.focus() }, "Add a mode")),
      field("Or take modes from a CSV file", file, "Its first line names the columns; each column becomes a mode, with every label that it has as a level. Nothing but names and levels leaves your computer."), wrong);
  }

  add(name = "", levels = []) {
    const row = { name: text(name), levels: h("textarea", { rows: "3", spellcheck: "false" }), features: h("textarea", { rows: "3", spellcheck: "false" }), given: h("input", { type: "checkbox" }), brought: h("input", { type: "checkbox" }), numbers: h("input", { type: "checkbox" }) };
    row.levels.value = levels.join("\n");
    const count = h("span", { class: "faint" });
    const asNumbers = h("label", { class: "check" }, row.numbers, " labels are numbers");
    const counted = () => {
      const found = pasted(row.levels.value);
      fill(count, found.length ? `${f.count(found.length)} ${found.length === 1 ? "level" : "levels"}` : "");
      asNumbers.hidden = !areNumbers(found);
    };
    row.levels.addEventListener("input", counted);
    counted();
    const number = this.rows.length + 1;
    row.element = h("fieldset", {}, h("legend", {}, `Mode ${number}`), h("div", { class: "fields" },
      field("Name of the mode", row.name, "Such as segment, offer, channel"), field("Levels", row.levels, "Pasted: one per line, or separated by commas"),
      field("What they are like", row.features, "If known: a table, whose first line names the level and its features, such as price and brand. New levels then start from what was learned of them."),
      h("div", {}, h("label", { class: "check" }, row.given, " given, not chosen (context)"), h("label", { class: "check" }, row.brought, " a number that requests bring, such as an age: give the ends of its regions, or nothing to have them learned"), asNumbers, count, h("div", {}, h("button", { type: "button", class: "quiet", "aria-label": `Remove mode ${number}`, onclick: () => this.remove(row) }, "Remove")))));
    this.rows.push(row);
    this.list.append(row.element);
    return row;
  }

  remove(row) {
    this.rows.splice(this.rows.indexOf(row), 1);
    row.element.remove();
  }

  read() {
    const modes = {};
    const context = [];
    const features = {};
    for (const { name, levels, features: like, given, brought, numbers } of this.rows) {
      const mode = name.value.trim();
      const labels = pasted(levels.value);
      if (!mode && !labels.length) continue;
      if (brought.checked && mode && !(mode in modes)) {
        if (labels.length && (labels.length < 2 || !areNumbers(labels))) throw new Error(`The ends of the regions of “${mode}” are at least two numbers, such as 18, 30, 45, 65; or none, to have them learned.`);
        modes[mode] = { numbers: [mode], ...(labels.length ? { cuts: labels.map(Number).sort((a, b) => a - b) } : {}) };
        context.push(mode);
        continue;
      }
      if (!mode) throw new Error(`A mode with the levels ${f.listed(labels.slice(0, 3))} has no name.`);
      if (mode in modes) throw new Error(`Two modes are named “${mode}”.`);
      if (!labels.length) throw new Error(`The mode “${mode}” has no levels.`);
      modes[mode] = numbers.checked && areNumbers(labels) ? labels.map(Number) : labels;
      if (like.value.trim()) features[mode] = pastedFeatures(like.value, modes[mode]);
      if (given.checked) context.push(mode);
    }
    if (!Object.keys(modes).length) throw new Error("Name at least one mode, and its levels.");
    if (context.length === Object.keys(modes).length) throw new Error("Every mode is given, so that nothing is left to choose.");
    return { modes, context, ...(Object.keys(features).length ? { features } : {}) };
  }
}
