// All bandits: a card for each, with its numbers and a small line of its rewards.

import * as api from "./api.js";
import { command, empty, fill, h } from "./dom.js";
import * as f from "./format.js";
import { curl } from "./curl.js";

const SVG = "http://www.w3.org/2000/svg";
const SECONDS = 10; // between two looks at the rewards of a card

export function bandits(main, { who, failed }) {
  document.title = "Bandits · tensorbandits";
  const cards = new Map();
  const grid = h("div", { class: "cards" });
  const none = h("div");
  main.replaceChildren(h("h1", {}, "Bandits"), none, grid);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? entry.target.card.poll.start() : entry.target.card.poll.stop();
  });

  function show({ bandits: found }) {
    fill(none, found.length ? [] : [nothing(who)]);
    const names = new Set(found.map((one) => one.name));
    for (const [name, card] of cards) {
      if (names.has(name)) continue;
      seen.unobserve(card.element);
      card.poll.stop();
      card.element.remove();
      cards.delete(name);
    }
    for (const one of found) {
      if (!cards.has(one.name)) {
        const card = new Card(one, who);
        cards.set(one.name, card);
        grid.append(card.element);
        seen.observe(card.element);
      }
      cards.get(one.name).show(one);
    }
  }

  const poll = new api.Poll({ load: api.bandits, show, failed }).start();
  return {
    stop() {
      poll.stop();
      seen.disconnect();
      for (const card of cards.values()) card.poll.stop();
    },
    redraw() {},
  };
}

class Card {
  constructor(one) {
    this.reward = h("dd", {}, "…");
    this.uplift = h("dd", {}, "…");
    this.decisions = h("dd");
    this.waiting = h("dd");
    this.kind = h("p", { class: "faint" });
    this.badge = h("span", { class: "badge", hidden: true }, "apprentice");
    this.line = h("div", { class: "spark" });
    this.rewardName = h("dt", {}, "Mean reward");
    this.element = h("article", { class: "card bandit" },
      h("h2", {}, h("a", { href: `#/${encodeURIComponent(one.name)}` }, one.name), this.badge), this.kind, this.line,
      h("dl", { class: "facts" },
        h("div", {}, this.rewardName, this.reward), h("div", {}, h("dt", {}, "Uplift"), this.uplift),
        h("div", {}, h("dt", {}, "Decisions"), this.decisions), h("div", {}, h("dt", {}, "Waiting"), this.waiting)));
    this.element.card = this;
    this.poll = new api.Poll({
      load: (signal) => api.view(one.name, "overview", {}, signal),
      show: (found) => this.more(found),
      failed: (error) => { if (error) fill(this.uplift, error.status === 403 ? "not for this key" : "–"); },
      seconds: SECONDS,
    });
  }

  /** What the list says. */
  show(one) {
    const modes = Object.entries(one.modes).map(([mode, levels]) => `${f.count(levels)} ${mode}`);
    fill(this.kind, one.quarantined ?? modes.join(" × "));
    fill(this.decisions, one.quarantined ? "–" : f.brief(one.decisions));
    fill(this.waiting, one.quarantined ? "–" : f.brief(one.waiting));
    if (one.quarantined) fill(this.reward, "–");
    this.badge.hidden = !one.apprentice && !one.quarantined;
    fill(this.badge, one.quarantined ? "quarantined" : "apprentice");
  }

  /** What only the bandit itself says. */
  more(found) {
    const watches = found.apprentice && !found.rollout;
    const side = watches ? found.caller : found.policy;
    fill(this.rewardName, watches ? "Your rule earns" : "Mean reward");
    fill(this.reward, f.reward(side?.mean, found.kind));
    fill(this.uplift, uplift(found));
    this.line.replaceChildren(spark(found.spark));
  }
}

/** The uplift in a word or two; what is not decided says so. */
function uplift({ uplift: up, kind }) {
  if (!up || up.verdict === "too few") return "–";
  if (up.verdict === "suspect") return "not to be trusted";
  if (up.verdict === "open") return "not decided";
  return up.relative === undefined ? f.difference(up.mean, kind) : f.change(up.relative);
}

/** A small line, without axes. */
function spark(values) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 240 48");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", values.length > 1 ? `Mean reward over time, from ${f.number(values[0])} to ${f.number(values.at(-1))}` : "No rewards yet");
  const line = document.createElementNS(SVG, "path");
  if (values.length > 1) {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const points = values.map((value, at) => {
      const x = 2 + (236 * at) / (values.length - 1);
      const y = high > low ? 44 - (40 * (value - low)) / (high - low) : 24;
      return `${x.toFixed(1)} ${y.toFixed(1)}`;
    });
    line.setAttribute("d", `M${points.join("L")}`);
  } else {
    line.setAttribute("d", "M2 24H238");
    line.setAttribute("class", "none");
  }
  svg.append(line);
  return svg;
}

function nothing(who) {
  const body = { name: "campaign", modes: { segment: ["new", "old"], offer: ["a", "b", "c"], channel: ["mail", "sms"] }, context: ["segment"], reward: "bernoulli", window: "30 min", default: 0, holdout: 0.1 };
  return empty("No bandits yet",
    h("p", {}, who.role === "admin" ? "Make the first one:" : "Somebody with an admin key can make one:"),
    command(curl("POST", "/v1/bandits", body)),
    h("p", {}, "Or see one at work: stop the server, and start it with ", h("code", {}, "tensorbandits serve --demo"), "."));
}
