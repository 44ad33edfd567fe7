// Levels whose rewards have changed, how modes act, and what can be done about both.

import { Actions } from "./actions.js";
import { h } from "./dom.js";
import * as f from "./format.js";

export function drift({ name, who, again }) {
  const found_ = h("div");
  const actions = new Actions({ name, who, again });

  function show(found) {
    const write = (value) => f.reward(value, found.kind);
    const alerts = found.moved.map((one) => {
      const up = one.after > one.before;
      const what = one.mode === null ? "Everything" : `${one.mode}: ${one.label}`;
      return h("article", { class: `card alert ${up ? "good" : "bad"}` },
        h("h3", {}, `${up ? "▲" : "▼"} ${what} ${up ? "rose" : "fell"}`),
        h("p", { class: "value" }, `${write(one.before)} → ${write(one.after)}`),
        h("p", {}, `Mean rewards of the same ${f.count(one.cells)} combinations, before and since. It happened about ${f.count(one.ago)} rewards ago. Look whether something broke or changed there.`));
    });
    const title = found.verdict === "still" ? "✓ Nothing has moved" : "Too few rewards to tell whether anything has moved";
    const calm = h("article", { class: "card" }, h("h3", {}, title), h("p", {}, found.words));
    const evidence = found.verdict === "too few" ? [] : [h("p", { class: "faint" }, `Evidence that something moved: ${found.evidence >= 1e6 ? "more than a million" : f.number(found.evidence)}; ${f.number(found.news)} and more is news. If nothing ever moves, there is a false alarm in at most one of 20 bandits, however often one looks. Made from ${f.count(found.rewards)} rewards, anew every few minutes.`)];
    const structure = h("article", { class: "card" }, h("h3", {}, "How modes act"), h("p", {}, found.matters.words));
    found_.replaceChildren(...(alerts.length ? alerts : [calm]), ...evidence, structure);
    actions.show(found.actions);
  }

  return { what: "drift", element: h("div", {}, found_, actions.element), show, seconds: 30, always: true };
}
