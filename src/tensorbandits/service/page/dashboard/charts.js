// Charts: plotly's script when the first is drawn, colours of the page, labels as they are written.

import { h, table } from "./dom.js";
import { cut, isDate, isRate } from "./format.js";

let loading = null;

/** Plotly, from this server. */
function plotly() {
  loading ??= new Promise((done, failed) => {
    const script = h("script", { src: "/static/plotly.min.js" });
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => {
      loading = null;
      failed(new Error("The script that draws charts could not be loaded from this server."));
    });
    document.head.append(script);
  });
  return loading;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colours of the page as it looks now. Those of levels can be told apart with any colour vision. */
export function colours() {
  return {
    text: css("--text"), faint: css("--faint"), line: css("--line"), ground: css("--card"),
    policy: css("--policy"), holdout: css("--holdout"), good: css("--good"), bad: css("--bad"), others: css("--others"),
    levels: [1, 2, 3, 4, 5, 6, 7, 8].map((at) => css(`--level-${at}`)),
  };
}

/** A text that plotly shows as it is: it takes some HTML for its own. */
export const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

export const narrow = () => window.innerWidth < 640;
export const ticks = (labels, longest = narrow() ? 14 : 28) => labels.map((label) => escaped(cut(label, longest)));

/** A colour with less strength, for bands. */
export function light(colour, strength) {
  const part = (at) => parseInt(colour.slice(at, at + 2), 16);
  return `rgba(${part(1)}, ${part(3)}, ${part(5)}, ${strength})`;
}

/** Seconds as what the time axis takes: local time, as plotly knows no zones. */
export function moment(seconds) {
  if (!isDate(seconds)) return seconds;
  const date = new Date(1000 * seconds);
  return new Date(date.getTime() - 60000 * date.getTimezoneOffset()).toISOString().slice(0, 23).replace("T", " ");
}

export function axis(more = {}) {
  const c = colours();
  return {
    gridcolor: c.line, zerolinecolor: c.faint, linecolor: c.line, automargin: true, fixedrange: true,
    tickfont: { color: c.faint, size: 12 }, ...more, title: more.title ? { text: escaped(more.title), font: { color: c.faint, size: 12 }, standoff: 8 } : undefined,
  };
}

/** The axis of time, or of decisions. */
export function timeAxis(against, more = {}) {
  const usual = { nticks: narrow() ? 3 : 8, tickangle: 0 };
  return axis(against === "time" ? { ...usual, ...more } : { title: "decisions", tickformat: ",d", ...usual, ...more });
}

/** How an axis writes mean rewards: in percent for clicks, else three digits. */
export const rewardFormat = (kind) => (isRate(kind) ? ".3~p" : ".3~r");

function base(height) {
  const c = colours();
  return {
    height, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
    font: { family: css("--font"), color: c.text, size: 12 }, margin: { l: 8, r: 12, t: 8, b: 8 },
    hoverlabel: { bgcolor: c.ground, bordercolor: c.faint, font: { color: c.text }, align: "left" }, hovermode: "closest",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal", font: { color: c.text } }, showlegend: false,
  };
}

/**
 * A figure: a heading, a sentence that says what is seen, the chart, and its numbers as a table.
 * `draw` returns { data, layout, height, sentence, table: { columns, rows } }, or null for nothing to draw.
 */
export class Figure {
  constructor(title) {
    this.heading = h("h3", {}, title);
    this.sentence = h("p", { class: "sentence" });
    this.place = h("div", { class: "chart", role: "img", "aria-label": title });
    this.numbers = h("div");
    this.details = h("details", { class: "numbers" }, h("summary", {}, "Numbers as a table"), this.numbers);
    this.details.addEventListener("toggle", () => this.write());
    this.element = h("figure", { class: "card" }, this.heading, this.sentence, this.place, this.details);
    this.shown = null;
    this.drawn = 0;
  }

  async draw(shown) {
    this.shown = shown;
    if (shown.title) this.heading.textContent = shown.title;
    this.sentence.textContent = shown.sentence ?? "";
    this.place.setAttribute("aria-label", `${this.heading.textContent}. ${shown.sentence ?? ""}`);
    this.write();
    this.drawn += 1;
    const mine = this.drawn;
    const library = await plotly();
    if (mine !== this.drawn || !this.place.isConnected) return;
    const layout = { ...base(shown.height ?? 320), ...shown.layout, uirevision: shown.revision ?? "same" };
    await library.react(this.place, shown.data, layout, { displayModeBar: false, responsive: true, doubleClick: false });
  }

  /** The table, if it is looked at. */
  write() {
    if (this.details.open && this.shown?.table) this.numbers.replaceChildren(table(this.shown.table.columns, this.shown.table.rows, this.heading.textContent));
  }
}

/**
 * Numbers with their bounds, one row for each, the first at the top.
 * Rows are { text, hover, mean, low, high, hollow, colour }; a text in parts has one of them per line where room is scarce.
 */
export function whiskers(rows, usual, kindFormat, title, more = {}) {
  const at = rows.map((_, index) => index);
  const hover = rows.map((row) => row.hover);
  const colour = rows.map((row) => row.colour ?? usual);
  const parts = narrow() ? Math.max(1, ...rows.map((row) => (Array.isArray(row.text) ? row.text.length : 1))) : 1;
  const label = (text) => (parts > 1 ? ticks(text, 20).join("<br>") : ticks([[text].flat().join(" · ")])[0]);
  const lines = rows.map((row, index) => ({
    type: "scatter", mode: "lines", x: [row.low, row.high], y: [index, index], line: { color: light(colour[index], 0.55), width: 5 }, hoverinfo: "skip",
  }));
  const ends = rows.flatMap((row) => [row.low, row.high, row.mean]).filter((value) => value !== null);
  const room = 0.04 * (Math.max(...ends) - Math.min(...ends));
  return {
    data: [
      ...lines,
      {
        type: "scatter", mode: "markers", x: rows.map((row) => row.mean), y: at, text: hover, hoverinfo: "text",
        marker: { size: 10, color: rows.map((row, index) => (row.hollow ? colours().ground : colour[index])), line: { color: colour, width: 2 } },
      },
    ],
    layout: {
      xaxis: axis({ title, tickformat: kindFormat, zeroline: false, range: ends.length ? [Math.min(...ends) - room, Math.max(...ends) + room] : undefined, nticks: narrow() ? 4 : 8 }),
      yaxis: axis({ tickvals: at, ticktext: rows.map((row) => label(row.text)), range: [rows.length - 0.5, -0.5], showgrid: false, zeroline: false, tickfont: { color: colours().text, size: 12 } }),
      ...more,
    },
    height: Math.max(90, (parts > 1 ? 16 * parts + 8 : 26) * rows.length + 70),
  };
}
