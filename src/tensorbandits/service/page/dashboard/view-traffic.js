// Which levels decisions had over time.

import { axis, colours, escaped, Figure, moment, narrow, timeAxis } from "./charts.js";
import { chooser, empty, fill, h } from "./dom.js";
import * as f from "./format.js";

export function traffic({ space, again }) {
  const decided = space.modes.filter((one) => !one.context);
  let mode = (decided[0] ?? space.modes[0]).mode;
  let against = "time";
  let last = null;
  const figure = new Figure("Share of decisions");
  const none = h("div");
  const controls = h("div", { class: "controls" },
    chooser("Mode", space.modes.map((one) => ({ value: one.mode, text: one.context ? `${one.mode} (given)` : one.mode })), mode, (value) => { mode = value; again(); }),
    chooser("Horizontal axis", [{ value: "time", text: "time" }, { value: "decisions", text: "number of decisions" }], against, (value) => { against = value; if (last) show(last); }));

  async function show(found) {
    last = found;
    figure.element.hidden = !found.decisions;
    fill(none, !found.decisions && empty("No decisions yet", h("p", {}, "Rewards were told without decisions, so there is no traffic to show.")));
    if (found.decisions) await figure.draw(draw(found, against));
  }

  return { what: "traffic", params: () => ({ mode }), element: h("div", {}, controls, figure.element, none), show };
}

function draw(found, against) {
  const c = colours();
  const begin = against === "time" ? found.start.map(moment) : found.first;
  const end = against === "time" ? moment(found.end.at(-1)) : found.next.at(-1);
  const x = [...begin, end];
  const names = [...found.levels.map((one) => one.text), ...(found.others ? [`${f.count(found.others)} others`] : [])];
  const data = found.shares.map((shares, at) => {
    const colour = found.others && at === found.shares.length - 1 ? c.others : c.levels[at % c.levels.length];
    return {
      type: "scatter", mode: "lines", stackgroup: "all", x, y: [...shares, shares.at(-1)], name: escaped(f.cut(names[at], narrow() ? 16 : 28)),
      line: { width: 0.5, color: colour, shape: "hv" }, fillcolor: colour, hoveron: "points", hoverinfo: "text",
      text: [...shares, shares.at(-1)].map((share) => `${escaped(names[at])}: ${f.share(share, 1)}`),
    };
  });
  const top = found.totals.indexOf(Math.max(...found.totals.slice(0, found.levels.length)));
  const late = found.shares.map((shares) => shares.at(-1));
  const leader = late.indexOf(Math.max(...late.slice(0, found.levels.length)));
  return {
    title: `Traffic by ${found.mode}`, data, height: narrow() ? 440 : 400,
    layout: {
      showlegend: true, hovermode: "x unified",
      legend: { orientation: "h", y: narrow() ? -0.2 : -0.14, yanchor: "top", x: 0, traceorder: "normal", font: { color: c.text } },
      xaxis: timeAxis(against, { range: [x[0], end] }),
      yaxis: axis({ title: "share of decisions", tickformat: ".0%", range: [0, 1] }),
    },
    revision: found.mode,
    sentence: `Lately most decisions are ${f.within(names[leader])} (${f.share(late[leader])}); over all time ${f.within(names[top])} (${f.share(found.totals[top])}). ${found.side === "holdout" ? "This is what your rule played." : "Decisions of the holdout are left out."}`,
    table: {
      columns: [{ title: found.mode }, { title: "of all", number: true }, { title: "lately", number: true }],
      rows: names.map((name, at) => [name, f.share(found.totals[at], 1), f.share(late[at], 1)]),
    },
  };
}
