// What matters: each level by itself, and which modes act together.

import { axis, colours, escaped, Figure, narrow, rewardFormat, ticks, whiskers } from "./charts.js";
import { empty, fill, h } from "./dom.js";
import * as f from "./format.js";

export function effects() {
  const shares = new Figure("What matters, and which modes interact");
  const figures = new Map();
  const grid = h("div", { class: "masonry" });
  const note = h("p", { class: "faint" });
  const none = h("div");
  const acting = h("article", { class: "card", hidden: true }); // in the place of shares that nobody knows

  async function show(found) {
    fill(none, found.why && empty("No effects", h("p", {}, found.why)));
    grid.hidden = note.hidden = Boolean(found.why);
    shares.element.hidden = Boolean(found.why) || !found.matters.known;
    acting.hidden = Boolean(found.why) || found.matters.known;
    if (found.why) return;
    fill(acting, h("h3", {}, found.matters.verdict === "nothing" ? "Nothing to learn was found" : "Too few rewards to tell what matters"), h("p", {}, found.matters.words));
    note.textContent = `From ${f.count(found.rewards)} rewards, with ${f.share(found.level)} intervals.${found.rewards ? "" : " Nothing was told yet: all this is what is assumed beforehand."}`;
    if (found.matters.known) await shares.draw(drawShares(found));
    for (const mode of found.modes) {
      if (!figures.has(mode.mode)) {
        const figure = new Figure(mode.mode);
        figures.set(mode.mode, figure);
        grid.append(figure.element);
      }
    }
    for (const mode of found.modes) await figures.get(mode.mode).draw(drawMode(found, mode));
  }

  return { what: "effects", element: h("div", {}, note, acting, shares.element, h("h3", { class: "apart" }, "Main effects"), h("p", { class: "faint" }, "The mean reward of each level with typical partners. Hollow: known mostly from other levels."), grid, none), show, seconds: 6 };
}

function drawShares(found) {
  const c = colours();
  const parts = found.interactions;
  const colour = { 1: c.levels[0], 2: c.levels[1], 0: c.others };
  return {
    height: 30 * parts.length + 70,
    data: [{
      type: "bar", orientation: "h", x: parts.map((one) => one.share), y: parts.map((_, at) => at), marker: { color: parts.map((one) => colour[one.modes]) },
      error_x: { type: "data", symmetric: false, array: parts.map((one) => Math.max(one.high - one.share, 0)), arrayminus: parts.map((one) => Math.max(one.share - one.low, 0)), color: c.text, thickness: 1.2, width: 3 },
      text: parts.map((one) => `${escaped(one.part)}: ${f.share(one.share)}<br>${f.share(found.level)}: ${f.between(one.low, one.high, f.share)}`), hoverinfo: "text", textposition: "none",
    }],
    layout: {
      bargap: 0.3,
      xaxis: axis({ title: narrow() ? "share of all differences" : "share of what combinations differ by", tickformat: ".0%", rangemode: "tozero", nticks: narrow() ? 4 : 8 }),
      yaxis: axis({ tickvals: parts.map((_, at) => at), ticktext: ticks(parts.map((one) => one.part), narrow() ? 22 : 40), range: [parts.length - 0.5, -0.5], showgrid: false, zeroline: false, tickfont: { color: c.text, size: 12 } }),
    },
    sentence: found.matters.words,
    table: { columns: [{ title: "part" }, { title: "share", number: true }, { title: "interval", number: true }], rows: parts.map((one) => [one.part, f.share(one.share, 1), f.between(one.low, one.high, (value) => f.share(value, 1))]) },
  };
}

function drawMode(found, mode) {
  const c = colours();
  const write = (value) => f.reward(value, found.kind);
  const rows = mode.levels.map((one) => ({
    text: one.retired ? `${one.text} (retired)` : one.text, mean: one.reward, low: one.low, high: one.high, hollow: one.own !== null && one.own < 0.5,
    hover: `${escaped(one.text)}: ${write(one.reward)}<br>${f.share(found.level)}: ${f.between(one.low, one.high, write)}<br>${f.count(one.rewards)} rewards${one.own === null ? "" : `; ${f.share(one.own)} known from its own`}`,
  }));
  const said = mode.features;
  if (said) mode.levels.forEach((one, at) => { rows[at].hover += `<br>effect ${f.number(one.effect)}: ${f.number(one.by_features.mean)} (${f.between(one.by_features.low, one.by_features.high, f.number)}) by its features, ${f.number(one.by_itself.mean)} (${f.between(one.by_itself.low, one.by_itself.high, f.number)}) its own`; });
  const best = mode.levels[0];
  const worst = mode.levels.at(-1);
  return {
    title: mode.context ? `${mode.mode} (given)` : mode.mode,
    ...whiskers(rows, c.policy, rewardFormat(found.kind), "mean reward", {
      shapes: [{ type: "line", xref: "x", yref: "paper", x0: mode.middle, x1: mode.middle, y0: 0, y1: 1, line: { color: c.faint, width: 1, dash: "dash" } }],
    }),
    revision: mode.mode,
    sentence: `From ${f.within(best.text)} (${write(best.reward)}) down to ${f.within(worst.text)} (${write(worst.reward)}).${mode.left_out ? ` ${f.count(mode.left_out)} in between are left out.` : ""}${mode.alike.length ? ` Alike, as far as is known: ${mode.alike.map((group) => f.listed(group.slice(0, 6).map(f.within))).join("; ")}.` : ""}${said ? ` Features explain ${f.share(said.share)} (${f.between(said.low, said.high, f.share)}) of what levels differ by: ${f.listed(said.parts.slice(0, 4).map((one) => `${f.within(one.feature)} ${f.share(Math.max(one.share, 0))}`))}.` : ""}`,
    table: { columns: [{ title: mode.mode }, { title: "mean reward", number: true }, { title: "interval", number: true }, { title: "rewards", number: true }, { title: "own", number: true }, ...(said ? [{ title: "effect by its features", number: true }, { title: "effect of its own", number: true }] : [])], rows: mode.levels.map((one) => [one.text, write(one.reward), f.between(one.low, one.high, write), f.count(one.rewards), f.share(one.own), ...(said ? [one.by_features, one.by_itself].map((part) => `${f.number(part.mean)} (${f.between(part.low, part.high, f.number)})`) : [])]) },
  };
}
