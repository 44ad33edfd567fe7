// Reward over time beside the holdout's, and how much higher it is.

import { axis, colours, escaped, Figure, light, moment, rewardFormat, timeAxis } from "./charts.js";
import { chooser, empty, h } from "./dom.js";
import * as f from "./format.js";

export function reward() {
  let against = "time";
  let summed = "so_far";
  let last = null;
  const rewards = new Figure("Mean reward over time");
  const uplift = new Figure("Uplift");
  const none = h("div");
  const warning = h("div");
  const again = () => last && show(last);
  const controls = h("div", { class: "controls" },
    chooser("Horizontal axis", [{ value: "time", text: "time" }, { value: "decisions", text: "number of decisions" }], against, (value) => { against = value; again(); }),
    chooser("Uplift", [{ value: "so_far", text: "of all so far" }, { value: "difference", text: "of each period" }], summed, (value) => { summed = value; again(); }));

  async function show(found) {
    last = found;
    const some = found.policy || found.holdout || found.caller;
    rewards.element.hidden = !some;
    const compared = some && found.uplift; // without a side that is drawn there is no time to draw it over
    uplift.element.hidden = !compared;
    warning.replaceChildren(...suspect(found.uplift));
    none.replaceChildren(...words(found, some));
    if (some) await rewards.draw(drawRewards(found, against));
    if (compared) await uplift.draw(drawUplift(found, against, summed));
  }

  return { what: "reward", element: h("div", {}, warning, controls, rewards.element, uplift.element, none), show };
}

/** What has to be known before any number is believed. */
function suspect(uplift) {
  if (uplift?.whole.verdict !== "suspect") return [];
  return [h("section", { class: "card verdict", role: "alert" }, h("h3", {}, "The comparison cannot be trusted"), h("p", {}, `${f.minus(uplift.whole.words)}.`))];
}

function words(found, some) {
  if (!some) {
    const waits = found.settled ? "Decisions wait for their rewards: their mean is known when the first windows have ended, as who does not click says so only then." : "No decision has a reward yet: tell some, by the ids of their decisions.";
    return [empty("No rewards to draw yet", h("p", {}, waits))];
  }
  if (found.uplift) return [];
  if (found.apprentice) return [empty("No uplift to draw", h("p", {}, "The bandit only watches. Once it decides for a share of visitors, drawn at random, what it makes is measured: see Apprentice."))];
  return [empty("No uplift to draw", h("p", {}, found.holdout === null && found.policy ? "Without a holdout nobody knows what would have been earned without the bandit. Set one, such as 5 % of decisions, to measure the uplift from now on: see Control." : "The holdout has too few rewards yet."))];
}

const middles = (side, against) => side.start.map((_, at) => (against === "time" ? moment((side.start[at] + side.end[at]) / 2) : (side.first[at] + side.next[at]) / 2));

/** A line with a band around it. */
function banded(x, numbers, name, colour, hover, dash) {
  const band = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  return [
    { ...band, y: numbers.low },
    { ...band, y: numbers.high, fill: "tonexty", fillcolor: light(colour, 0.18) },
    { type: "scatter", mode: "lines+markers", x, y: numbers.mean, name: escaped(name), line: { color: colour, width: 2.5, dash }, marker: { size: 6, color: colour, symbol: dash ? "diamond" : "circle" }, text: hover, hoverinfo: "text" },
  ];
}

const looks = (found) => (found.intervals === "fixed" ? "bands hold in 95 % of cases at one time that was fixed beforehand" : "bands hold in 95 % of cases however often you look");

/** A grey part of time whose rewards are still to come. */
function unsettled(found, against, end) {
  if (!found.settled) return {};
  const begin = against === "time" ? moment(found.settled.time) : found.settled.first;
  const c = colours();
  return {
    shapes: [{ type: "rect", xref: "x", yref: "paper", x0: begin, x1: end, y0: 0, y1: 1, fillcolor: light(c.others, 0.18), line: { width: 0 }, layer: "below" }],
  };
}

function rangeOf(found, against) {
  const side = found.policy ?? found.holdout ?? found.caller;
  return against === "time" ? [moment(side.start[0]), moment(side.end.at(-1))] : [0, found.decisions];
}

function drawRewards(found, against) {
  const c = colours();
  const write = (value) => f.reward(value, found.kind);
  const names = { policy: "bandit", holdout: "holdout", caller: "your rule" };
  const colour = { ...c, caller: c.others };
  const data = [];
  const rows = [];
  for (const side of ["policy", "holdout", "caller"]) {
    const one = found[side];
    if (!one) continue;
    const hover = one.mean.map((mean, at) => `${names[side]}: ${write(mean)}<br>95 %: ${f.between(one.low[at], one.high[at], write)}<br>${f.count(one.rewards[at])} rewards, from ${f.clock(one.start[at])}`);
    data.push(...banded(middles(one, against), one, names[side], colour[side], hover, side === "policy" ? undefined : "dash"));
    one.mean.forEach((mean, at) => rows.push([names[side], f.clock(one.start[at]), f.count(one.first[at]), f.count(one.rewards[at]), write(mean), f.between(one.low[at], one.high[at], write)]));
  }
  const range = rangeOf(found, against);
  return {
    data, height: 340,
    layout: {
      ...unsettled(found, against, range[1]), showlegend: true,
      xaxis: timeAxis(against, { range, zeroline: false }),
      yaxis: axis({ title: f.isRate(found.kind) ? "share of decisions rewarded" : "mean reward of a decision", tickformat: f.isRate(found.kind) ? rewardFormat(found.kind) : undefined, rangemode: "tozero" }),
    },
    sentence: `Each point is the mean of a stretch of time; ${looks(found)}.${found.settled ? " In the grey part rewards are still to come." : ""}`,
    table: { columns: [{ title: "side" }, { title: "from" }, { title: "decision", number: true }, { title: "rewards", number: true }, { title: "mean", number: true }, { title: "95 % interval", number: true }], rows },
  };
}

function drawUplift(found, against, summed) {
  const c = colours();
  const one = found.uplift;
  const points = f.isRate(found.kind) ? 100 : 1; // percentage points of shares
  const scaled = (values) => values.map((value) => (value === null ? null : points * value));
  const numbers = one[summed];
  const write = (value) => f.difference(value, found.kind);
  const place = summed === "so_far" ? one.start.map((_, at) => (against === "time" ? moment(one.end[at]) : one.next[at])) : middles(one, against);
  const hover = numbers.mean.map((mean, at) => `${write(mean)}<br>95 %: ${f.between(numbers.low[at], numbers.high[at], write)}<br>${summed === "so_far" ? "all up to" : "from"} ${f.clock(summed === "so_far" ? one.end[at] : one.start[at])}`);
  const other = one.whole.over === "caller" ? "your rule" : "holdout";
  const range = rangeOf(found, against);
  return {
    data: banded(place, { mean: scaled(numbers.mean), low: scaled(numbers.low), high: scaled(numbers.high) }, "uplift", c.policy, hover), height: 280,
    layout: {
      ...unsettled(found, against, range[1]),
      xaxis: timeAxis(against, { range, zeroline: false }),
      yaxis: axis({ title: f.isRate(found.kind) ? `bandit − ${other} (percentage points)` : `bandit − ${other} (reward)`, tickformat: "+.3~r", ticksuffix: f.isRate(found.kind) ? " pp" : "", zeroline: true, zerolinewidth: 2, rangemode: "tozero" }),
    },
    sentence: `${f.minus(one.whole.words)}.`,
    table: {
      columns: [{ title: "from" }, { title: "to" }, { title: "uplift", number: true }, { title: "95 % interval", number: true }],
      rows: numbers.mean.map((mean, at) => [f.clock(summed === "so_far" ? one.start[0] : one.start[at]), f.clock(one.end[at]), write(mean), f.between(numbers.low[at], numbers.high[at], write)]),
    },
  };
}
