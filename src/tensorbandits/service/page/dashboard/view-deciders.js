// Deciders: the snapshot that they decide from, who they are, and how fast what they send is learned.

import { command, empty, h, table } from "./dom.js";
import * as f from "./format.js";

export function deciders({ name }) {
  const place = h("div");

  function show(found) {
    const numbers = [
      ["newest snapshot", found.version === null ? "none was asked for yet" : `version ${found.version}, ${f.duration(found.age)} old, ${f.count(found.bytes)} bytes`],
      ["events that it does not know", f.count(found.events_since)],
      ["published", `${found.address ?? "over HTTP only"}, every ${f.duration(found.every)} at most`],
      ["decisions made here", f.count(found.decisions.here)],
      ["decisions made by deciders", f.count(found.decisions.elsewhere)],
      ["events a second, over the last minute", f.number(found.events_a_second)],
      ["learning lags behind by", found.learning_lag ? f.duration(found.learning_lag) : "nothing"],
    ];
    const columns = [{ title: "decider" }, { title: "heard of" }, { title: "snapshot", number: true }, { title: "decisions sent", number: true }];
    const rows = found.deciders.map((one) => [one.name, f.ago(one.last), one.version === null ? "–" : String(one.version), f.count(one.decisions)]);
    place.replaceChildren(
      ...(found.failed ? [h("p", { class: "wrong", role: "alert" }, `Publishing fails: ${found.failed}. Deciders go on from the last snapshot that they have.`)] : []),
      table([{ title: "what" }, { title: "now" }], numbers, "Snapshots and learning"),
      rows.length ? table(columns, rows, "Deciders that this process has heard of in ten minutes") : nobody(name));
  }

  return { what: "deciders", element: h("section", { class: "card" }, h("h3", {}, "Deciders"), place), show, always: true };
}

function nobody(name) {
  return empty("No deciders were heard of",
    h("p", {}, "A decider decides in your own process, from a snapshot of this bandit, and writes nothing before it answers."),
    command(`tensorbandits.Decider("${window.location.origin}/v1/bandits/${name}")`));
}
