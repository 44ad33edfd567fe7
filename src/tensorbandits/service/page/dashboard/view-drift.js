// Levels whose rewards have changed, and which structure the rewards speak for.

import { empty, h } from "./dom.js";
import * as f from "./format.js";

export function drift() {
  const place = h("div");

  function show(found) {
    if (!found.words) {
      place.replaceChildren(empty("Too few rewards to compare", h("p", {}, `There are ${f.count(found.rewards)}; levels are compared early and late from 8 rewards on.`)));
      return;
    }
    const write = (value) => f.reward(value, found.kind);
    const alerts = found.moved.map((one) => {
      const up = one.after > one.before;
      const what = one.mode === null ? "Everything" : `${one.mode}: ${one.label}`;
      return h("article", { class: `card alert ${up ? "good" : "bad"}` },
        h("h3", {}, `${up ? "▲" : "▼"} ${what} ${up ? "rose" : "fell"}`),
        h("p", { class: "value" }, `${write(one.before)} → ${write(one.after)}`),
        h("p", {}, `Mean rewards of the same ${f.count(one.cells)} combinations, before and since. It happened about ${f.count(one.ago)} rewards ago.`),
        h("p", { class: "faint" }, "What to do: look whether something broke or changed there. A half-life lets the bandit forget the past by itself."));
    });
    const calm = h("article", { class: "card" }, h("h3", {}, "✓ Nothing has moved"), h("p", {}, found.words));
    const evidence = found.evidence === null ? [] : [h("p", { class: "faint" }, `Evidence that something moved: ${found.evidence >= 1e6 ? "more than a million" : f.number(found.evidence)}; ${f.number(found.news)} and more is news. If nothing ever moves, there is a false alarm in at most one of 20 bandits, however often one looks. Made from ${f.count(found.rewards)} rewards, anew every few minutes.`)];
    const structure = found.structure ? [h("article", { class: "card" }, h("h3", {}, "Structure"), h("p", {}, found.structure), found.suggested ? h("p", { class: "faint" }, `Suggested: ${found.suggested}${found.rank === null || found.rank === undefined ? "" : `, rank ${found.rank}`}.`) : null)] : [];
    place.replaceChildren(...(alerts.length ? alerts : [calm]), ...evidence, ...structure);
  }

  return { what: "drift", element: place, show, seconds: 30 };
}
