// Estimates and how uncertain they are, for all levels of two modes.

import { axis, colours, escaped, Figure, narrow, rewardFormat, ticks } from "./charts.js";
import { chooser, empty, fill, h } from "./dom.js";
import * as f from "./format.js";

const WRITTEN = 12; // rows and columns up to which numbers are written into the map

export function heat({ space, again }) {
  const modes = space.modes;
  const order = [...modes.filter((one) => !one.context), ...modes.filter((one) => one.context)].map((one) => one.mode);
  let [rows, columns] = order;
  const fixed = new Map(modes.filter((one) => one.context).map((one) => [one.mode, firstKept(one)]));
  let sorted = true;
  let last = null;
  const estimates = new Figure("Estimated mean reward");
  const widths = new Figure("How uncertain that is");
  const controls = h("div", { class: "controls" });
  const note = h("p", { class: "faint" });
  const none = h("div");

  function choose() {
    if (modes.length < 2) return;
    const names = modes.map((one) => ({ value: one.mode, text: one.mode }));
    const set = (which, value) => {
      const other = which === "rows" ? columns : rows;
      if (value === other) [rows, columns] = [columns, rows];
      else if (which === "rows") rows = value;
      else columns = value;
      choose();
      again();
    };
    const others = modes.filter((one) => one.mode !== rows && one.mode !== columns);
    const sort = h("input", { type: "checkbox", checked: sorted, onchange: () => { sorted = sort.checked; if (last) show(last); } });
    fill(controls,
      chooser("Rows", names, rows, (value) => set("rows", value)), chooser("Columns", names, columns, (value) => set("columns", value)),
      others.map((one) => chooser(one.mode, [{ value: "", text: "averaged over" }, ...one.levels.map((text, at) => ({ value: String(at), text: f.cut(text, 40) }))], String(fixed.get(one.mode) ?? ""), (value) => {
        fixed.set(one.mode, value === "" ? null : Number(value));
        again();
      })),
      h("label", { class: "check" }, sort, " best first"));
  }

  function params() {
    const given = [...fixed].filter(([mode, level]) => mode !== rows && mode !== columns && level !== null);
    return { rows, columns, fixed: given.length ? JSON.stringify(Object.fromEntries(given)) : null };
  }

  async function show(found) {
    if (!found.why && (found.modes[0] !== rows || found.modes[1] !== columns)) return;
    last = found;
    estimates.element.hidden = Boolean(found.why);
    widths.element.hidden = Boolean(found.why) || found.width === null;
    fill(none, found.why && empty("No heat map", h("p", {}, found.why)));
    if (found.why) return;
    const left = found.left_out.map((count, at) => (count ? `${f.count(count)} more of ${found.modes[at]} are left out` : "")).filter(Boolean);
    fill(note, [found.others, ...left, `from ${f.count(found.rewards)} rewards`, found.estimate.flat().includes(null) ? "empty cells may not be chosen" : ""].filter(Boolean).join("; "));
    const seen = sorted ? sort(found) : { rows: found.rows.map((_, at) => at), columns: found.columns.map((_, at) => at) };
    await estimates.draw(map(found, seen, "estimate"));
    if (found.width) await widths.draw(map(found, seen, "width"));
  }

  choose();
  return { what: "heat", params, element: h("div", {}, controls, note, h("div", { class: "pair" }, estimates.element, widths.element), none), show, seconds: 4 };
}

const firstKept = (mode) => mode.levels.findIndex((_, at) => !mode.retired.includes(at));

/** Rows and columns with the highest means first. */
function sort(found) {
  const mean = (values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : -Infinity;
  };
  const byRow = found.estimate.map(mean);
  const byColumn = found.columns.map((_, at) => mean(found.estimate.map((row) => row[at])));
  const order = (means) => means.map((_, at) => at).sort((a, b) => means[b] - means[a]);
  return { rows: order(byRow), columns: order(byColumn) };
}

function map(found, seen, what) {
  const c = colours();
  const rate = f.isRate(found.kind);
  const write = (value) => (what === "width" && rate ? `${f.reward(value, found.kind).replace("%", "pp")}` : f.reward(value, found.kind));
  const points = what === "width" && rate ? 100 : 1; // widths of shares are percentage points
  const z = seen.rows.map((row) => seen.columns.map((column) => found[what][row][column]));
  const rows = seen.rows.map((at) => found.rows[at]);
  const columns = seen.columns.map((at) => found.columns[at]);
  const flat = z.flat().filter((value) => value !== null);
  const low = Math.min(...flat);
  const high = Math.max(...flat);
  const written = columns.length <= (narrow() ? 6 : WRITTEN) && rows.length <= 40;
  const hover = z.map((line, i) => line.map((value, j) => `${escaped(found.modes[0])}: ${escaped(rows[i])}<br>${escaped(found.modes[1])}: ${escaped(columns[j])}<br>${value === null ? "may not be chosen" : `${what === "width" ? `width of the ${f.share(found.level)} interval` : "estimate"}: ${write(value)}`}`));
  const short = (value) => (value === null ? "" : rate ? (100 * value).toFixed(high < 0.1 ? 1 : 0) : f.number(value));
  const upright = columns.length > (narrow() ? 3 : 6) || Math.max(...columns.map((text) => text.length)) > 8;
  const below = upright ? 6 * Math.min(Math.max(...columns.map((text) => text.length)), narrow() ? 14 : 28) : 20;
  const best = what === "estimate" ? z.map((line, i) => [i, line.indexOf(high)]).find(([, j]) => j >= 0) : null;
  const wide = (i, j) => found.width[seen.rows[i]][seen.columns[j]];
  const sure = best && found.width !== null // the interval of no other reaches that of the best
    && z.every((line, i) => line.every((value, j) => value === null || (i === best[0] && j === best[1]) || high - value > (wide(...best) + wide(i, j)) / 2));
  return {
    height: Math.max(150, 24 * rows.length) + below + 60,
    data: [{
      type: "heatmap", z: points === 1 ? z : z.map((line) => line.map((value) => (value === null ? null : points * value))), x: columns.map((_, at) => at), y: rows.map((_, at) => at), colorscale: what === "estimate" ? "Viridis" : "Cividis", hoverinfo: "text", text: hover, xgap: 1, ygap: 1, hoverongaps: false,
      showscale: !(narrow() && written), colorbar: { thickness: 12, outlinewidth: 0, tickformat: points === 1 ? rewardFormat(found.kind) : ".3~r", ticksuffix: points === 1 ? "" : " pp", tickfont: { color: c.faint }, len: 1, nticks: Math.min(6, rows.length + 1) },
    }],
    layout: {
      xaxis: axis({ title: found.modes[1], tickvals: columns.map((_, at) => at), ticktext: ticks(columns), tickangle: upright ? -60 : 0, showgrid: false, zeroline: false, tickfont: { color: c.text, size: 11 } }),
      yaxis: axis({ title: found.modes[0], tickvals: rows.map((_, at) => at), ticktext: ticks(rows), autorange: "reversed", showgrid: false, zeroline: false, tickfont: { color: c.text, size: 11 } }),
      annotations: written ? z.flatMap((line, i) => line.map((value, j) => ({ x: j, y: i, text: best && best[0] === i && best[1] === j ? `<b>${sure ? "★" : ""}${short(value)}</b>` : short(value), showarrow: false, font: { size: 11, color: value !== null && value > low + 0.6 * (high - low) ? "#000000" : "#ffffff" } }))) : [],
    },
    revision: `${found.modes.join()}`,
    sentence: what === "estimate"
      ? best ? `${sure ? "Highest (★)" : "Leading, not sure"}: ${f.within(rows[best[0]])} with ${f.within(columns[best[1]])}, ${write(high)}.${rate && written ? " Numbers are percent." : ""}` : ""
      : `${f.share(found.level)} intervals are ${write(low)} to ${write(high)} wide: the wider, the less is known.`,
    table: {
      columns: [{ title: found.modes[0] }, ...columns.map((text) => ({ title: text, number: true }))],
      rows: rows.map((text, i) => [text, ...z[i].map((value) => (value === null ? "–" : write(value)))]),
    },
  };
}
