// The best choices of a context: combinations of levels that the bandit chooses.

import { colours, escaped, Figure, narrow, rewardFormat, whiskers } from "./charts.js";
import { chooser, empty, fill, h } from "./dom.js";
import * as f from "./format.js";

export function arms({ space, again }) {
  const given = space.modes.filter((one) => one.context);
  const chosen = Object.fromEntries(given.map((one) => [one.mode, one.levels.findIndex((_, at) => !one.retired.includes(at))]));
  const figure = new Figure("Best choices");
  const none = h("div");
  const controls = h("div", { class: "controls" }, given.map((one) => chooser(one.mode,
    one.levels.map((text, at) => ({ value: String(at), text: f.cut(text, 40) })).filter((_, at) => !one.retired.includes(at)), String(chosen[one.mode]),
    (value) => { chosen[one.mode] = Number(value); again(); })));

  async function show(found) {
    fill(none, found.why && empty("No choices to compare", h("p", {}, found.why)));
    figure.element.hidden = Boolean(found.why);
    if (!found.why) await figure.draw(draw(found, given));
  }

  const params = () => ({ context: given.length ? JSON.stringify(chosen) : null });
  return { what: "arms", params, element: h("div", {}, controls, figure.element, none), show, seconds: 4 };
}

function draw(found, given) {
  const c = colours();
  const write = (value) => f.reward(value, found.kind);
  const rows = found.arms.map((one) => ({
    text: one.labels, mean: one.estimate, low: one.low, high: one.high,
    hover: `${one.labels.map((text, at) => `${escaped(found.modes[at])}: ${escaped(text)}`).join("<br>")}<br>${write(one.estimate)}, ${f.share(found.level)}: ${f.between(one.low, one.high, write)}<br>${f.count(one.rewards)} rewards so far`,
  }));
  const where = given.map((one) => `${one.mode} = ${one.levels[found.context[one.mode]]}`).join(", ");
  const [best, ...others] = found.arms;
  const sure = !others.length ? "there is no other" : others.every((one) => best.low > one.high) ? "clearly ahead" : "others may be as good: intervals overlap";
  return {
    title: where ? `Best choices for ${where}` : "Best choices",
    ...whiskers(rows, c.policy, rewardFormat(found.kind), narrow() ? "mean reward" : `mean reward, ${f.share(found.level)} intervals`),
    sentence: best ? `Best now: ${best.labels.map(f.within).join(" · ")}, ${write(best.estimate)} (${f.between(best.low, best.high, write)}); ${sure}.` : "",
    table: {
      columns: [...found.modes.map((mode) => ({ title: mode })), { title: "estimate", number: true }, { title: "interval", number: true }, { title: "rewards", number: true }],
      rows: found.arms.map((one) => [...one.labels, write(one.estimate), f.between(one.low, one.high, write), f.count(one.rewards)]),
    },
  };
}
