// The last events, as they come.

import { empty, fill, h, table } from "./dom.js";
import * as f from "./format.js";

export const EVENTS = {
  Created: "created", Changed: "settings changed", Deleted: "deleted", Decided: "decided", Activated: "shown", Cancelled: "cancelled", Rewarded: "rewarded", Amended: "reward amended",
  TimedOut: "window ended", Told: "told without a decision", LevelAdded: "level added", LevelRetired: "level retired", LevelRestored: "level restored", RuleChanged: "rule", Imported: "log imported",
};

export function events() {
  let paused = false;
  const list = h("div");
  const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    fill(button, paused ? "Go on" : "Hold still");
  } }, "Hold still");

  function show(found) {
    if (paused) return;
    if (!found.events.length) {
      list.replaceChildren(empty("No events", h("p", {}, "They were folded away, or none has come.")));
      return;
    }
    const columns = [{ title: "number", number: true }, { title: "time" }, { title: "event" }, { title: "what" }, { title: "reward", number: true }, { title: "probability", number: true }, { title: "decision" }];
    const rows = found.events.map((one) => [f.count(one.seq), f.clock(one.time), h("span", { class: `kind ${one.kind}` }, EVENTS[one.kind] ?? one.kind), said(one), one.reward === null ? "" : f.number(one.reward), one.propensity === null ? "" : f.number(one.propensity), one.decision ? h("code", {}, one.decision) : ""]);
    const before = list.querySelector(".scroll")?.scrollLeft ?? 0;
    list.replaceChildren(table(columns, rows, "The last events, newest first"));
    list.firstChild.scrollLeft = before;
  }

  return { what: "events", element: h("section", { class: "card" }, h("div", { class: "row" }, h("h3", {}, "The last events"), button), list), show, always: true };
}

function said(one) {
  const parts = [one.labels?.join(" · "), one.by && one.by !== "policy" ? `by the ${one.by}` : null, one.would ? `the bandit would: ${one.would.join(" · ")}` : null, one.words || null];
  return parts.filter(Boolean).join("; ");
}
