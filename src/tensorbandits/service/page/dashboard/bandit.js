// One bandit: its numbers, and a tab for each thing that can be seen of it.

import * as api from "./api.js";
import { curl } from "./curl.js";
import { command, empty, fill, h } from "./dom.js";
import { action } from "./fields.js";
import * as f from "./format.js";
import { stateOf } from "./state.js";
import { Steering } from "./steer.js";
import { tryOne } from "./try.js";
import { apprentice } from "./view-apprentice.js";
import { arms } from "./view-arms.js";
import { control } from "./view-control.js";
import { deciders } from "./view-deciders.js";
import { decisions } from "./view-decisions.js";
import { drift } from "./view-drift.js";
import { effects } from "./view-effects.js";
import { EVENTS, events } from "./view-events.js";
import { health } from "./view-health.js";
import { heat } from "./view-heat.js";
import { reportButton } from "./report.js";
import { levels } from "./view-levels.js";
import { reward } from "./view-reward.js";
import { traffic } from "./view-traffic.js";

// What each makes is { what, element, params(), show(found), seconds, always }; `always`: also before there are decisions.
// Instead of `what`, `load(signal)` asks for what it shows; `renew()` is called in the place of making it anew.
const TABS = {
  reward: ["Reward & uplift", reward],
  traffic: ["Traffic", traffic],
  heat: ["Heat map", heat],
  effects: ["Effects", effects],
  arms: ["Best choices", arms],
  decisions: ["Open decisions", decisions],
  deciders: ["Deciders", deciders],
  drift: ["Drift", drift],
  apprentice: ["Apprentice", apprentice],
  control: ["Control", control],
  levels: ["Levels & rules", levels],
  events: ["History", events],
  health: ["Health", health],
};

const BELIEFS = ["heat", "effects", "arms"]; // views of what was learned

export function bandit(main, { name, tab, who, failed: trouble, unknown, quarantined }) {
  const failed = (error, seconds) => {
    if (error?.code === "unknown_bandit") unknown(name);
    else if (error?.code === "quarantined") quarantined(name, error);
    else trouble(error, seconds);
  };
  document.title = `${name} · tensorbandits`;
  const tiles = new Tiles();
  const tabs = Object.entries(TABS).map(([id, [title]]) => h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", "aria-selected": "false", tabindex: "-1", onclick: () => go(id) }, title));
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": "What to see" }, tabs);
  const early = h("p", { class: "card alert", role: "status", hidden: true });
  const panel = h("section", { role: "tabpanel", id: "panel", tabindex: "0" });
  const kind = h("p", { class: "faint" });
  const state = h("span", { class: "badge", hidden: true });
  const pause = h("div", { class: "pause" });
  main.replaceChildren(
    h("nav", { "aria-label": "Where you are" }, h("a", { href: "#/" }, "All bandits")),
    h("div", { class: "title row" }, h("div", {}, h("h1", {}, name, state), kind), h("div", { class: "tools-of-one" }, pause, reportButton(name, failed))), tiles.element, list, early, panel);

  let space = null; // modes and levels
  let overview = null;
  let open = null; // the tab
  let view = null;
  let last = null; // what the view was shown last
  let poll = null;
  const changed = () => {
    numbers.again();
    poll?.again();
  };
  const steering = new Steering(name, who, changed);

  function go(id) {
    window.location.hash = `#/${encodeURIComponent(name)}/${id}`;
  }

  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = tabs.at(to % tabs.length);
    next.focus();
    openTab(next.id.slice(4)); // at once, as the next key may leave the list
    go(next.id.slice(4));
  });

  function openTab(wanted) {
    const id = wanted in TABS ? wanted : "reward";
    if (open === id) return;
    open = id;
    for (const one of tabs) {
      const chosen = one.id === `tab-${id}`;
      one.setAttribute("aria-selected", String(chosen));
      one.tabIndex = chosen ? 0 : -1;
      if (chosen) one.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    panel.setAttribute("aria-labelledby", `tab-${id}`);
    showEarly();
    mount();
  }

  /** Make the view of the tab anew, and ask for what it shows. */
  function mount() {
    poll?.stop();
    poll = null;
    failed(null); // what was wrong with another view; whatever still is wrong is said again
    if (space === null || overview === null) return;
    const [title, make] = TABS[open];
    view = make({ name, space, who, overview: () => overview, again: () => poll?.again(), changed: () => poll?.again(), steering });
    last = null;
    const waiting = !overview.decisions && !overview.learned && !view.always;
    panel.replaceChildren(h("h2", { class: "hidden" }, title), waiting ? beforeDecisions(name, space, overview.apprentice, steering.may) : view.element);
    if (waiting) return;
    poll = new api.Poll({
      load: view.load ?? ((signal) => api.view(name, view.what, view.params?.() ?? {}, signal)),
      show: async (found) => {
        last = found;
        await view.show(found);
      },
      failed,
      seconds: view.seconds ?? 2,
    }).start();
  }

  async function look(signal) {
    const found = await api.view(name, "overview", {}, signal);
    if (space === null || space.version !== found.version) space = Object.assign(await api.view(name, "space", {}, signal), { fresh: true });
    return found;
  }

  function show(found) {
    const before = overview;
    overview = found;
    tiles.show(found);
    showState(found);
    showEarly();
    if (space.fresh) {
      space.fresh = false;
      fill(kind, described(space));
      if (view?.renew && panel.contains(view.element)) view.renew();
      else mount();
    } else if (!before?.decisions && !before?.learned && (found.decisions || found.learned)) {
      mount();
    }
  }

  /** That what was learned is too high, as long as those who earn nothing have not said so. */
  function showEarly() {
    const share = overview?.provisional ?? null;
    early.hidden = share === null || !BELIEFS.includes(open);
    if (!early.hidden) fill(early, `Provisional: ${f.share(share)} of the decisions still wait. Who earns something says so at once, who does not only when the wait has ended: until then the means below are too high.`);
  }

  /** The state beside the name, and the button that pauses the bandit. */
  function showState(found) {
    const { text, kind: mark } = stateOf(found);
    state.hidden = false;
    state.className = `badge ${mark}`;
    fill(state, text);
    const next = `${found.paused} ${found.apprentice}`;
    if (!steering.may || pause.dataset.state === next) return;
    pause.dataset.state = next;
    fill(pause, action(found.paused ? "Let it go on …" : "Pause …", () => steering.pause(!found.paused, found.apprentice), { main: found.paused }));
  }

  openTab(tab);
  const numbers = new api.Poll({ load: look, show, failed }).start();
  return {
    name,
    open: openTab,
    stop() {
      numbers.stop();
      poll?.stop();
    },
    redraw() {
      if (last && view) view.show(last);
    },
  };
}

function described(space) {
  const modes = space.modes.map((one) => `${one.mode} (${f.count(one.levels.length)}${one.context ? ", given" : ""})`).join(" × ");
  const rules = space.rules.length ? ` · ${f.count(space.rules.length)} ${space.rules.length === 1 ? "rule" : "rules"}` : "";
  return `${modes}${rules}`;
}

function beforeDecisions(name, space, beside, may) {
  const path = `${api.banditPath(name)}`;
  const played = beside ? { played: Object.fromEntries(space.modes.filter((one) => !one.context).map((one) => [one.mode, one.levels[0]])) } : {};
  return empty("No decisions yet",
    may && h("div", { class: "steps" }, action("Try one here …", () => tryOne(name), { main: true })),
    h("p", {}, beside ? "Ask for the first one, and say what your own rule plays:" : "Ask for the first one:"), command(curl("POST", `${path}/ask`, { context: space.example, ...played })),
    h("p", {}, "Then tell what it earned, with the id of the answer:"), command(curl("POST", `${path}/tell`, { id: "…", reward: 1 })),
    h("p", { class: "faint" }, "This page shows it within seconds."));
}

/** The numbers above all tabs. */
class Tiles {
  constructor() {
    this.parts = {};
    this.element = h("div", { class: "tiles", hidden: true }); // until there are numbers
    for (const id of ["reward", "uplift", "decisions", "waiting", "lag", "last"]) {
      const part = { name: h("dt"), value: h("dd", { class: "value" }), more: h("dd", { class: "more" }) };
      this.parts[id] = part;
      this.element.append(h("dl", { class: "tile" }, part.name, part.value, part.more));
    }
  }

  set(id, name, value, more, mark = null) {
    const part = this.parts[id];
    fill(part.name, name);
    fill(part.value, value);
    fill(part.more, more);
    part.value.className = mark ? `value ${mark}` : "value";
  }

  show(found) {
    this.element.hidden = false;
    const watches = found.apprentice && !found.rollout;
    const side = watches ? found.caller : found.policy;
    const write = (value) => f.reward(value, found.kind);
    const what = watches ? "Your rule earns" : "Mean reward";
    const none = found.rewards ? "the first windows have yet to end" : "no rewards yet";
    const known = side && side.mean !== null;
    this.set("reward", what, known ? write(side.mean) : "–", known ? `${interval(side, write)}${found.to_come ? `; ${f.count(found.to_come)} decisions are too young to count` : ""}` : none);
    this.showUplift(found);
    this.set("decisions", "Decisions", f.brief(found.decisions), `${f.count(found.rewards)} with a reward`);
    this.set("waiting", "Waiting for rewards", f.brief(found.waiting), found.waiting ? `${f.share(found.waiting / found.decisions, 1)} of all` : "");
    this.set("lag", "A reward takes", found.lag ? f.duration(found.lag.p50) : "–", found.lag ? `9 of 10 within ${f.duration(found.lag.p90)}` : found.rewards ? "seen with the next reward" : "no rewards told yet");
    this.set("last", "Last event", found.last_event ? f.ago(found.last_event.time) : "–", found.last_event ? `${EVENTS[found.last_event.kind] ?? found.last_event.kind}, number ${f.count(found.last_event.seq)}` : "");
  }

  showUplift(found) {
    const up = found.uplift;
    const over = up?.over === "caller" ? "Uplift over your rule" : "Uplift over holdout";
    if (found.apprentice && !found.rollout && !up) {
      this.set("uplift", "Uplift", "–", "the bandit only watches: see Apprentice");
    } else if (!up) {
      this.set("uplift", "Uplift", "–", "no holdout to compare with");
    } else if (up.verdict === "suspect") {
      this.set("uplift", over, "not to be trusted", up.ratio.fits ? "rewards are missing more often on one side" : `it has ${f.share(up.ratio.seen, 1)} of the decisions, not ${f.share(up.ratio.expected, 1)} as set`, "bad");
    } else if (up.verdict === "too few") {
      this.set("uplift", over, "–", "too few rewards yet");
    } else {
      const relative = up.relative !== undefined && up.relative !== null;
      const value = relative ? f.change(up.relative) : f.difference(up.mean, found.kind);
      const range = relative ? interval({ low: up.relative_low, high: up.relative_high }, f.change) : interval(up, (one) => f.difference(one, found.kind));
      const mark = { better: "good", worse: "bad" }[up.verdict] ?? null;
      const word = { better: "▲ ", worse: "▼ " }[up.verdict] ?? "";
      this.set("uplift", over, word + value, `${mark ? "" : "not decided; "}${range}`, mark);
    }
  }
}

const interval = (one, write) => `95 %: ${one.high === null || one.high === undefined ? `from ${write(one.low)}` : f.between(one.low, one.high, write)}`;
