// Decisions that wait, and how long rewards take.

import { axis, colours, Figure } from "./charts.js";
import { empty, fill, h, table } from "./dom.js";
import * as f from "./format.js";

export function decisions() {
  const figure = new Figure("How long rewards take");
  const list = h("div");
  const summary = h("p", { class: "sentence" });
  const open = h("section", { class: "card" }, h("h3", {}, "Decisions that wait longest"), summary, list);

  async function show(found) {
    fill(summary, found.waiting
      ? `${f.count(found.waiting)} ${found.waiting === 1 ? "decision waits" : "decisions wait"} for a reward${found.window ? `, each for at most ${f.number(found.window) === "–" || typeof found.window === "string" ? found.window : `${f.count(found.window)} rounds`}` : "; nothing ends their wait, as no window is set"}.`
      : "No decision waits: each has its reward, or its window has ended.");
    const columns = [{ title: "has waited" }, ...found.modes.map((mode) => ({ title: mode })), { title: "id" }];
    list.replaceChildren(...(found.oldest.length ? [table(columns, found.oldest.map((one) => [f.duration(one.age) + (one.active ? "" : " (not shown yet)"), ...one.labels, h("code", {}, one.id)]), "Decisions that wait longest")] : []));
    figure.element.hidden = !found.lag;
    fill(none, !found.lag && empty("No rewards since the server started", h("p", {}, "How long they take is shown when the next ones come.")));
    if (found.lag) await figure.draw(draw(found));
  }

  const none = h("div");
  return { what: "decisions", element: h("div", {}, figure.element, none, open), show };
}

function draw(found) {
  const bars = found.bars;
  const used = bars.map((one) => one.count > 0);
  const shown = bars.slice(used.indexOf(true), used.lastIndexOf(true) + 1);
  const name = (one) => (one.to === null ? `over ${f.duration(one.from)}` : one.from === 0 ? `under ${f.duration(one.to)}` : `${f.duration(one.from)} to ${f.duration(one.to)}`);
  return {
    height: 240,
    data: [{ type: "bar", x: shown.map((_, at) => at), y: shown.map((one) => one.count), marker: { color: colours().policy }, text: shown.map((one) => `${name(one)}: ${f.count(one.count)} rewards`), hoverinfo: "text", textposition: "none" }],
    layout: {
      bargap: 0.15,
      xaxis: axis({ title: "from decision to reward", tickvals: shown.map((_, at) => at), ticktext: shown.map(name), showgrid: false, zeroline: false, tickfont: { color: colours().text, size: 11 } }),
      yaxis: axis({ title: "rewards", tickformat: ",d", rangemode: "tozero", nticks: 5 }),
    },
    sentence: `Of the last ${f.count(found.lag.count)} rewards half came within ${f.duration(found.lag.p50)}, 9 of 10 within ${f.duration(found.lag.p90)}, and 99 of 100 within ${f.duration(found.lag.p99)}. Defaults of windows that ended do not count here.`,
    table: { columns: [{ title: "from decision to reward" }, { title: "rewards", number: true }], rows: shown.map((one) => [name(one), f.count(one.count)]) },
  };
}
