// What would have happened, had the bandit decided in the place of the caller's rule.

import * as api from "./api.js";
import { colours, Figure, rewardFormat, whiskers } from "./charts.js";
import { curl } from "./curl.js";
import { command, h } from "./dom.js";
import * as f from "./format.js";

export function apprentice({ name, who, space, again, overview }) {
  const figure = new Figure("What would have happened");
  const verdict = h("div", { class: "card verdict" });
  const how = h("div");
  let state = null; // what the lower part was made for

  async function show(found) {
    const some = found.count > 1 && found.difference?.mean !== null && found.difference !== null;
    figure.element.hidden = verdict.hidden = !some;
    if (some) {
      verdict.replaceChildren(...words(found));
      await figure.draw(draw(found));
    }
    const next = `${found.on} ${some}`;
    if (state !== next) {
      state = next;
      how.replaceChildren(...(found.on ? running(found, some) : [off(some)]));
    }
  }

  function words(found) {
    const write = (value) => f.difference(value, found.kind);
    const range = f.between(found.difference.low, found.difference.high, write);
    const said = {
      better: ["▲ The bandit would have earned more", "good"],
      worse: ["▼ The bandit would have earned less", "bad"],
      open: ["Not decided yet", ""],
    }[found.verdict];
    const relative = found.rule.mean > 0 ? ` (${f.change(found.difference.mean / found.rule.mean)})` : "";
    return [h("h3", {}, said[0]), h("p", { class: `value ${said[1]}` }, `${write(found.difference.mean)}${relative}`),
      h("p", {}, `per decision, 95 %: ${range}, over ${f.count(found.count)} decisions whose rewards are known.`)];
  }

  function running(found, some) {
    const body = { apprentice: false };
    const parts = [h("h3", {}, "Switch it on"), h("p", {}, "From then on ask answers with the bandit's own arm. Keep a holdout, so that the uplift stays known; your rule can be its baseline.")];
    if (who.role === "admin") parts.push(switchOn());
    parts.push(h("p", { class: "faint" }, who.role === "admin" ? "Or by hand:" : "Somebody with an admin key can do it:"), command(curl("PATCH", api.banditPath(name), body)));
    const card = h("section", { class: "card" }, parts);
    if (some) return [card];
    const arm = Object.fromEntries(space.modes.filter((one) => !one.context).map((one) => [one.mode, one.levels[0]]));
    return [h("section", { class: "card" }, h("h3", {}, "The bandit watches"), h("p", {}, "Ask as usual, and say what your own rule plays, with its probability if it has one. The bandit learns, and says what it would have played."),
      command(curl("POST", `${api.banditPath(name)}/ask`, { context: space.example, played: arm, propensity: 1 })), h("p", { class: "faint" }, "What would have happened is shown here once rewards come.")), card];
  }

  function switchOn() {
    const wrong = h("p", { class: "wrong", role: "alert" });
    const dialog = h("dialog", { class: "card", "aria-label": "Switch the bandit on" },
      h("p", {}, `From now on ${name} decides by itself, and your rule's arms are not played any more.`), wrong,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Not now"),
        h("button", { type: "button", class: "main", onclick: async () => {
          try {
            await api.patch(api.banditPath(name), { apprentice: false });
            dialog.close();
            again();
          } catch (error) {
            wrong.textContent = error.message;
          }
        } }, "Switch it on")));
    return h("div", {}, h("button", { type: "button", class: "main", onclick: () => dialog.showModal() }, "Switch the bandit on …"), dialog);
  }

  function off(some) {
    const holdout = overview()?.holdout ? " Its uplift is measured by the holdout: see Reward & uplift." : "";
    return h("section", { class: "card" }, h("h3", {}, "The bandit decides"),
      h("p", {}, `${some ? "Above is what was seen while it ran beside your rule; since then it decides itself." : "It does not run beside another rule."}${holdout}`),
      h("p", {}, "To have it learn beside your rule, whose arms are played, until you trust it:"), command(curl("PATCH", api.banditPath(name), { apprentice: true })));
  }

  return { what: "apprentice", element: h("div", {}, verdict, figure.element, how), show, always: true };
}

function draw(found) {
  const c = colours();
  const write = (value) => f.reward(value, found.kind);
  const sides = [["Your rule", found.rule, c.holdout], ["The bandit", found.bandit, c.policy]];
  const rows = sides.map(([text, one, colour]) => ({ text, colour, mean: one.mean, low: one.low, high: one.high, hover: `${text}: ${write(one.mean)}<br>95 %: ${f.between(one.low, one.high, write)}` }));
  const made = whiskers(rows, c.policy, rewardFormat(found.kind), "mean reward, 95 % intervals");
  const xaxis = found.rule.low >= 0 ? { ...made.layout.xaxis, range: undefined, rangemode: "tozero" } : made.layout.xaxis;
  return {
    ...made, height: 160,
    layout: { ...made.layout, xaxis },
    sentence: `Your rule, which was played, earned ${write(found.rule.mean)} per decision; the bandit would have earned ${write(found.bandit.mean)} (doubly robust: what it expects, corrected by what was seen).`,
    table: { columns: [{ title: "who" }, { title: "mean reward", number: true }, { title: "95 % interval", number: true }], rows: rows.map((row) => [row.text, write(row.mean), f.between(row.low, row.high, write)]) },
  };
}
