// A first decision from the page itself: asked for, shown, and told what it earned.

import * as api from "./api.js";
import { ask, toast } from "./dialog.js";
import { h, table } from "./dom.js";
import { field, levelPicker } from "./fields.js";
import * as f from "./format.js";
import { labelsText } from "./steer.js";

const WHO = { policy: "the bandit", floor: "the bandit, by a smallest share", holdout: "the baseline", caller: "your own rule" };

/** A number of a mode that has no levels to choose from; empty where it is missing. */
function numberPicker(name) {
  const input = h("input", { type: "number", step: "any" });
  return { element: field(name, input), read: () => (input.value === "" ? null : Number(input.value)) };
}

/** Ask for one decision with labels that a person chooses, show it, and tell its reward. */
export async function tryOne(name) {
  const path = api.banditPath(name);
  const detail = await api.get(path);
  const modes = Object.keys(detail.levels);
  const pick = (some) => some.flatMap((mode) => {
    if (detail.regions?.[mode]) return detail.regions[mode].numbers.map((one) => [one, numberPicker(one)]);
    const levels = detail.levels[mode].filter((one) => !one.retired);
    return [[mode, levelPicker(mode, levels, { value: levels[0].label, any: null })]];
  });
  const given = pick(detail.context);
  const played = detail.apprentice ? pick(modes.filter((mode) => !detail.context.includes(mode))) : [];
  const read = (pickers) => Object.fromEntries(pickers.map(([mode, picker]) => [mode, picker.read()]));
  let made = null;
  const asked = await ask({
    title: `Ask ${name} for a decision?`, button: "Ask",
    parts: [
      h("p", {}, "It is a real one: it is kept, and what you say that it earned is learned."),
      given.length && h("div", { class: "fields" }, given.map(([, picker]) => picker.element)),
      played.length && [h("p", {}, "What your own rule plays:"), h("div", { class: "fields" }, played.map(([, picker]) => picker.element))],
    ],
    act: async () => {
      made = await api.post(`${path}/ask`, { context: read(given), ...(played.length ? { played: read(played) } : {}) });
    },
  });
  if (!asked) return;
  const earned = h("input", { type: "number", step: "any", required: true, value: "1" });
  const rows = [["play", labelsText(made.arm)], ["decided by", WHO[made.by] ?? made.by], ["probability of that", made.propensity === null ? "not known" : f.share(made.propensity, 1)], ["id", h("code", {}, made.id)]];
  const told = await ask({
    title: labelsText(made.arm), button: "Tell it", cancel: "Later",
    parts: [table([{ title: "what" }, { title: "is" }], rows, "The decision"), field("What it earned", earned, "Such as 1 for a click, and 0 for none. A program tells it with the id.")],
    ready: () => earned.value !== "",
    act: () => api.post(`${path}/tell`, { id: made.id, reward: Number(earned.value) }),
  });
  toast(told ? "The bandit knows what it earned." : "The decision waits for its reward: see Open decisions.");
}
