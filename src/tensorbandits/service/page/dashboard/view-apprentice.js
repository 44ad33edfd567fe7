// What would have happened, had the bandit decided in the place of the caller's rule.

import * as api from "./api.js";
import { colours, Figure, rewardFormat, whiskers } from "./charts.js";
import { curl } from "./curl.js";
import { command, h } from "./dom.js";
import * as f from "./format.js";
import { explained } from "./steer.js";
import { alone, gradual } from "./view-control.js";

export function apprentice({ name, who, space, overview, steering }) {
  const figure = new Figure("What would have happened");
  const verdict = h("div", { class: "card verdict" });
  const how = h("div");
  let state = null; // what the lower part was made for

  async function show(found) {
    const some = found.count > 1;
    figure.element.hidden = !some;
    verdict.hidden = !some && !found.uplift;
    if (!verdict.hidden) verdict.replaceChildren(...(found.uplift ? compared(found) : words(found)));
    if (some) await figure.draw(draw(found));
    const next = `${found.on} ${some} ${found.rollout} ${found.verdict}`;
    if (state !== next) {
      state = next;
      how.replaceChildren(...(found.on ? running(found, some) : [off(some)]));
    }
  }

  /** What a gradual start has shown: both sides drawn at random. */
  function compared(found) {
    const up = found.uplift;
    const said = { better: ["▲ The bandit earns more", "good"], worse: ["▼ The bandit earns less", "bad"], suspect: ["The comparison cannot be trusted", "bad"], "too few": ["Too few rewards yet", ""] }[up.verdict] ?? ["Not decided yet", ""];
    const value = up.mean === null || up.verdict === "suspect" ? [] : [h("p", { class: `value ${said[1]}` }, f.difference(up.mean, found.kind))];
    return [h("h3", {}, said[0]), ...value, h("p", {}, `${f.minus(up.words)}.`)];
  }

  function words(found) {
    const write = (value) => f.difference(value, found.kind);
    const { low, high, mean } = found.difference;
    const range = low === null && high === null ? "not bounded" : high === null ? `at least ${write(low)}` : f.between(low, high, write);
    const valid = found.intervals === "fixed" ? "at one time that was fixed beforehand" : "however often you look";
    const said = {
      better: ["▲ The bandit would have earned more", "good"],
      worse: ["▼ The bandit would have earned less", "bad"],
      open: ["Not decided yet", ""],
      unsupported: ["Your rule plays too little of this to judge it", ""],
      "too few": ["Too few rewards yet", ""],
    }[found.verdict];
    const relative = mean !== null && found.rule.mean > 0 ? ` (${f.change(mean / found.rule.mean)})` : "";
    const parts = [h("h3", {}, said[0])];
    if (mean !== null) parts.push(h("p", { class: `value ${said[1]}` }, `${write(mean)}${relative}`));
    const lacking = 1 - found.support;
    if (lacking > 0.01) parts.push(h("p", {}, `${f.share(lacking)} of what the bandit would play is never played by your rule. What that earns nobody has seen, so it cannot be judged from here.`));
    parts.push(h("p", {}, `Per decision, 95 %, ${valid}: ${range}${lacking > 0.01 && range !== "not bounded" ? ", whatever the rest earns" : ""}; over ${f.count(found.count)} decisions whose rewards are known.`));
    if (lacking > 0.01 && found.model) parts.push(h("p", {}, `The bandit itself believes ${write(found.model.low)} to ${write(found.model.high)}: that is its model's word, not a measurement. Start gradually to measure it.`));
    return parts;
  }

  function running(found, some) {
    const start = h("section", { class: "card" }, h("h3", {}, "Start gradually"),
      h("p", {}, `${found.rollout ? `The bandit decides for ${f.share(found.rollout)} of the visitors, drawn at random, and your rule for the others.` : "Let the bandit decide for a share of the visitors, drawn at random, and your rule for the others."} So what it makes is measured from the first day. Go up in steps. Your code goes on as it is: ask says what to play.`),
      steering.may ? gradual(steering, found.rollout) : explained(who), byHand({ rollout: found.steps.find((one) => one > (found.rollout ?? 0)) ?? 1 }));
    const card = h("section", { class: "card" }, h("h3", {}, "Switch it on"),
      h("p", {}, "From then on ask answers with the bandit's own choice, and your rule must not be given any more. Keep a holdout, so that the uplift stays known; your rule can be its baseline."),
      steering.may ? alone(steering, true) : null, byHand({ apprentice: false }));
    if (some || found.rollout) return [start, card];
    const arm = Object.fromEntries(space.modes.filter((one) => !one.context).map((one) => [one.mode, one.levels[0]]));
    return [h("section", { class: "card" }, h("h3", {}, "The bandit watches"), h("p", {}, "Ask as usual, and say what your own rule plays, with its probability if it has one. The bandit learns, and says what it would have played."),
      command(curl("POST", `${api.banditPath(name)}/ask`, { context: space.example, played: arm, propensity: 1 })), h("p", { class: "faint" }, "What would have happened is shown here once rewards come.")), start, card];
  }

  const byHand = (body) => h("details", {}, h("summary", {}, "As a command"), command(curl("PATCH", api.banditPath(name), body)));

  function off(some) {
    const holdout = overview()?.holdout ? " Its uplift is measured by the holdout: see Reward & uplift." : " What your rule earned before is no comparison: keep a holdout to measure what the bandit makes.";
    return h("section", { class: "card" }, h("h3", {}, "The bandit decides"),
      h("p", {}, `${some ? "Above is what was seen while it ran beside your rule; since then it decides itself." : "It does not run beside another rule."}${holdout}`),
      h("p", {}, "It can learn beside your rule, whose choices are played, until you trust it."), steering.may ? alone(steering, false) : explained(who), byHand({ apprentice: true }));
  }

  return { what: "apprentice", element: h("div", {}, verdict, figure.element, how), show, always: true };
}

function draw(found) {
  const c = colours();
  const write = (value) => f.reward(value, found.kind);
  const sides = [["Your rule", found.rule, c.holdout], ["The bandit", found.bandit, c.policy]].filter(([, one]) => one.low !== null && one.high !== null);
  const rows = sides.map(([text, one, colour]) => ({ text, colour, mean: one.mean, low: one.low, high: one.high, hover: `${text}: ${one.mean === null ? "" : write(one.mean)}<br>95 %: ${f.between(one.low, one.high, write)}` }));
  const made = whiskers(rows, c.policy, rewardFormat(found.kind), "mean reward, 95 % intervals");
  const xaxis = found.rule.low >= 0 ? { ...made.layout.xaxis, range: undefined, rangemode: "tozero" } : made.layout.xaxis;
  const would = found.bandit.mean === null ? "what the bandit would have earned is not known, only what it lies between" : `the bandit would have earned ${write(found.bandit.mean)} (doubly robust: what it expects, corrected by what was seen)`;
  return {
    ...made, height: 160,
    layout: { ...made.layout, xaxis },
    sentence: `Your rule, which was played, earned ${write(found.rule.mean)} per decision; ${would}.`,
    table: { columns: [{ title: "who" }, { title: "mean reward", number: true }, { title: "95 % interval", number: true }], rows: rows.map((row) => [row.text, row.mean === null ? "not known" : write(row.mean), f.between(row.low, row.high, write)]) },
  };
}
