// How the server is, and this bandit in it.

import * as api from "./api.js";
import { fill, h, table } from "./dom.js";
import * as f from "./format.js";

const WORDS = {
  version: "version", store: "store", process: "process", up_seconds: "running for", memory_bytes: "memory, at most so far",
  events: "events of this bandit", events_since_snapshot: "events since the last snapshot", rewards_not_learned: "rewards told, not learned yet",
  open_decisions: "open decisions", cells_seen: "combinations with rewards",
};

export function health() {
  const state = h("p", { class: "value" });
  const place = h("div");

  async function show(found) {
    const ready = await api.ready().then(() => null, (error) => error);
    state.className = ready ? "value bad" : "value good";
    fill(state, ready ? `✕ Not ready: ${ready.message}` : "✓ Ready to decide");
    const rows = Object.entries(found.numbers).map(([name, value]) => [WORDS[name] ?? name.replaceAll("_", " "), written(name, value)]);
    place.replaceChildren(table([{ title: "what" }, { title: "now" }], rows, "Health"));
  }

  return { what: "health", element: h("section", { class: "card" }, h("h3", {}, "Health"), state, place), show, always: true };
}

function written(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (name === "process") return String(value);
  if (typeof value === "object") return JSON.stringify(value);
  if (/(seconds|age|uptime)$/.test(name)) return f.duration(value);
  if (/bytes$/.test(name)) return `${f.number(value / 2 ** 20)} MiB`;
  return Number.isInteger(value) ? f.count(value) : f.number(value);
}
