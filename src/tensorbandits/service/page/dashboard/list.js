// All bandits: searched, sorted, and a card for each with its state, its numbers and a small line of its rewards.

import * as api from "./api.js";
import { chooser, empty, fill, h } from "./dom.js";
import { text } from "./fields.js";
import * as f from "./format.js";
import { stateOf, tooFew } from "./state.js";
import { explained, mayMake } from "./steer.js";

const SVG = "http://www.w3.org/2000/svg";
const SECONDS = 5; // between two looks
const AT_ONCE = 60; // cards that are drawn, before one scrolls
const TOGETHER = 50; // bandits of which numbers are asked for in one request
const SORTS = {
  name: ["name", (a, b) => a.name.localeCompare(b.name, "en", { numeric: true })],
  state: ["what needs a look", (a, b) => stateOf(a).order - stateOf(b).order],
  decisions: ["most decisions", (a, b) => b.decisions - a.decisions],
  waiting: ["most waiting", (a, b) => b.waiting - a.waiting],
  created: ["newest", (a, b) => b.created - a.created],
};
const STATES = ["deciding", "gradual start", "apprentice", "paused", "quarantined"];

export function bandits(main, { who, failed }) {
  document.title = "Bandits · tensorbandits";
  const cards = new Map(); // by name, of those that were ever drawn
  const grid = h("div", { class: "cards" });
  const none = h("div");
  const count = h("p", { class: "faint", role: "status" });
  const end = h("div", { class: "end" }); // as soon as it is seen, more cards are drawn
  let [found, sort, state, most] = [[], "name", "", AT_ONCE];
  const search = text("", { type: "search", placeholder: "part of a name or of a mode", "aria-label": "Search bandits", oninput: () => restart() });
  const controls = h("div", { class: "controls", hidden: true }, h("div", { class: "field search" }, h("span", {}, "Search"), search),
    chooser("Sort by", Object.entries(SORTS).map(([value, [words]]) => ({ value, text: words })), sort, (value) => { sort = value; restart(); }),
    chooser("State", [{ value: "", text: "all" }, ...STATES.map((one) => ({ value: one, text: one }))], state, (value) => { state = value; restart(); }));
  const make = mayMake(who) ? h("a", { class: "button main", href: "#/-/new" }, "New bandit") : null;
  main.replaceChildren(h("div", { class: "row" }, h("h1", {}, "Bandits"), make), controls, count, none, grid, end);

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.target.card.seen = entry.isIntersecting;
    if (entries.some((entry) => entry.isIntersecting && !entry.target.card.known)) numbers.again();
  }, { rootMargin: "200px" });
  const more = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting || most >= found.length) return;
    most += AT_ONCE;
    draw();
  }, { rootMargin: "400px" });
  more.observe(end);

  function restart() {
    most = AT_ONCE;
    draw();
  }

  function wanted() {
    const words = search.value.trim().toLowerCase();
    const some = found.filter((one) => (!words || [one.name, ...Object.keys(one.modes)].some((part) => part.toLowerCase().includes(words))) && (!state || stateOf(one).text.startsWith(state)));
    return some.sort((a, b) => SORTS[sort][1](a, b) || SORTS.name[1](a, b));
  }

  function draw() {
    const some = wanted();
    const shown = some.slice(0, most).map((one) => {
      if (!cards.has(one.name)) {
        cards.set(one.name, new Card(one));
        seen.observe(cards.get(one.name).element);
      }
      const card = cards.get(one.name);
      card.show(one);
      return card.element;
    });
    if (shown.length !== grid.children.length || shown.some((one, at) => one !== grid.children[at])) grid.replaceChildren(...shown);
    fill(count, some.length === found.length ? "" : some.length ? `${f.count(some.length)} of ${f.count(found.length)} bandits` : "No bandit is like that: search for less, or in all states.");
  }

  function show(answer) {
    found = answer.bandits;
    controls.hidden = found.length < 2;
    fill(none, found.length ? [] : [nothing(who)]);
    const names = new Set(found.map((one) => one.name));
    for (const [name, card] of cards) {
      if (names.has(name)) continue;
      seen.unobserve(card.element);
      cards.delete(name);
    }
    draw();
  }

  /** The numbers of the cards that are seen, in one request for many. */
  async function load(signal) {
    const some = [...cards.values()].filter((card) => card.seen && card.element.isConnected).map((card) => card.name).slice(0, TOGETHER);
    return some.length && who.role !== "decide" ? api.overviews(some, signal) : { overviews: {} };
  }

  const poll = new api.Poll({ load: api.bandits, show, failed, seconds: SECONDS }).start();
  const numbers = new api.Poll({ load, show: ({ overviews }) => { for (const [name, one] of Object.entries(overviews)) cards.get(name)?.more(one); }, failed, seconds: SECONDS }).start();
  return {
    stop() {
      poll.stop();
      numbers.stop();
      seen.disconnect();
      more.disconnect();
    },
    redraw() {},
  };
}

class Card {
  constructor(one) {
    this.name = one.name;
    this.seen = this.known = false;
    this.reward = h("dd", {}, "–");
    this.uplift = h("dd", {}, "–");
    this.decisions = h("dd");
    this.waiting = h("dd");
    this.kind = h("p", { class: "faint" });
    this.badge = h("span", { class: "badge" });
    this.few = h("p", { class: "faint" });
    this.line = h("div", { class: "spark" });
    this.rewardName = h("dt", {}, "Mean reward");
    this.element = h("article", { class: "card bandit" },
      h("h2", {}, h("a", { href: `#/${encodeURIComponent(one.name)}` }, one.name), this.badge), this.kind, this.line,
      h("dl", { class: "facts" },
        h("div", {}, this.rewardName, this.reward), h("div", {}, h("dt", {}, "Uplift"), this.uplift),
        h("div", {}, h("dt", {}, "Decisions"), this.decisions), h("div", {}, h("dt", {}, "Waiting"), this.waiting)), this.few);
    this.element.card = this;
  }

  /** What the list says. */
  show(one) {
    const modes = Object.entries(one.modes).map(([mode, levels]) => `${f.count(levels)} ${mode}`);
    fill(this.kind, one.quarantined ?? modes.join(" × "));
    fill(this.decisions, one.quarantined ? "–" : f.brief(one.decisions));
    fill(this.waiting, one.quarantined ? "–" : f.brief(one.waiting));
    const { text: words, kind } = stateOf(one);
    this.badge.className = `badge ${kind}`;
    fill(this.badge, words);
  }

  /** What only the bandit itself says. */
  more(found) {
    this.known = true;
    const watches = found.apprentice && !found.rollout;
    const side = watches ? found.caller : found.policy;
    fill(this.rewardName, watches ? "Your rule earns" : "Mean reward");
    fill(this.reward, f.reward(side?.mean, found.kind));
    fill(this.uplift, uplift(found));
    const few = tooFew(found);
    fill(this.few, few === null ? "" : `Too few rewards to tell what matters: ${few}`);
    this.line.replaceChildren(spark(found.spark, found.kind));
  }
}

/** The uplift in a word or two; what is not decided says so. */
function uplift({ uplift: up, kind }) {
  if (!up || up.verdict === "too few") return "–";
  if (up.verdict === "suspect") return "not to be trusted";
  if (up.verdict === "open") return "not decided";
  return up.relative === undefined ? f.difference(up.mean, kind) : f.change(up.relative);
}

/** A small line, with its lowest and highest value beside it. */
function spark(values, kind) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 240 48");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", values.length > 1 ? `Mean reward over time, from ${f.reward(values[0], kind)} to ${f.reward(values.at(-1), kind)}` : "No rewards yet");
  const line = document.createElementNS(SVG, "path");
  svg.append(line);
  if (values.length < 2) {
    line.setAttribute("d", "M2 24H238");
    line.setAttribute("class", "none");
    return svg;
  }
  const low = Math.min(...values);
  const high = Math.max(...values);
  const points = values.map((value, at) => {
    const x = 2 + (236 * at) / (values.length - 1);
    const y = high > low ? 44 - (40 * (value - low)) / (high - low) : 24;
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  line.setAttribute("d", `M${points.join("L")}`);
  return h("div", { class: "scaled" }, svg, h("div", { class: "scale", "aria-hidden": "true" }, h("span", {}, f.reward(high, kind)), high > low ? h("span", {}, f.reward(low, kind)) : null));
}

function nothing(who) {
  return empty("No bandits yet",
    mayMake(who) ? h("p", {}, h("a", { class: "button main", href: "#/-/new" }, "Make the first one")) : explained(who, "make a bandit"),
    h("p", {}, "Or see one at work: stop the server, and start it with ", h("code", {}, "tensorbandits serve --demo"), "."));
}
