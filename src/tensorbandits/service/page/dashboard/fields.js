// Fields of forms: labels of modes, shares of decisions, and lines of help and of what is wrong.

import { fill, h } from "./dom.js";
import { labelText } from "./steer.js";

const CHOSEN_FROM = 200; // levels beyond which one is written rather than chosen
let numbers = 0;

/** A field with its label, and help below it. */
export function field(label, input, help = null) {
  numbers += 1;
  input.id ||= `field-${numbers}`;
  const below = help && h("span", { class: "faint", id: `${input.id}-help` }, help);
  if (below) input.setAttribute("aria-describedby", below.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, below);
}

export const text = (value = "", more = {}) => h("input", { type: "text", value, autocomplete: "off", spellcheck: "false", ...more });

/** A share in percent; `read()` is it as a number from 0 to 1, or null if nothing is given. */
export function percent(value, more = {}) {
  const input = h("input", { type: "number", min: "0", max: "100", step: "any", inputmode: "decimal", value: value === null || value === undefined ? "" : String(Number((100 * value).toPrecision(12))), ...more });
  return { input, read: () => (input.value === "" ? null : Number((Number(input.value) / 100).toPrecision(12))) };
}

/** A level of a mode, or any; `read()` is its label, or undefined for any. `levels` are { label, retired }. */
export function levelPicker(mode, levels, { value, any = "any" } = {}) {
  const same = (label) => value !== undefined && JSON.stringify(label) === JSON.stringify(value);
  if (levels.length <= CHOSEN_FROM) {
    const at = levels.findIndex((one) => same(one.label));
    const select = h("select", {}, any !== null && h("option", { value: "" }, any), levels.map((one, index) => h("option", { value: String(index), selected: index === at }, `${labelText(one.label)}${one.retired ? " (retired)" : ""}`)));
    if (any !== null || at >= 0) select.value = at < 0 ? "" : String(at);
    return { element: field(mode, select), read: () => (select.value === "" ? undefined : levels[Number(select.value)].label) };
  }
  numbers += 1;
  const list = h("datalist", { id: `levels-${numbers}` }, levels.slice(0, 2000).map((one) => h("option", { value: labelText(one.label) })));
  const input = text(value === undefined ? "" : labelText(value), { list: list.id, placeholder: any ?? "" });
  const element = field(mode, input);
  element.append(list);
  return {
    element,
    read() {
      if (input.value === "") return undefined;
      const found = levels.find((one) => labelText(one.label) === input.value);
      if (!found) throw new Error(`${mode} has no level “${input.value}”.`);
      return found.label;
    },
  };
}

/** Labels of some modes; `read()` is { mode: label } of those that are not any. */
export function labelsPicker(levels, given = {}) {
  const pickers = Object.entries(levels).map(([mode, some]) => [mode, levelPicker(mode, some, { value: given[mode] })]);
  return {
    elements: pickers.map(([, one]) => one.element),
    read: () => Object.fromEntries(pickers.map(([mode, one]) => [mode, one.read()]).filter(([, label]) => label !== undefined)),
  };
}

/** Rows of a share each and the labels that it is for; `read()` is a list of { labels, share }. */
export function shareRows(legend, levels, given, help) {
  const rows = [];
  const list = h("div", { class: "rows" });
  function add(part) {
    const share = percent(part?.share ?? null, { required: true });
    const labels = labelsPicker(levels, part?.labels);
    const row = { share, labels };
    const remove = h("button", { type: "button", class: "quiet", "aria-label": `Remove this share of “${legend}”`, onclick: () => {
      rows.splice(rows.indexOf(row), 1);
      row.element.remove();
      list.dispatchEvent(new Event("input", { bubbles: true }));
      button.focus();
    } }, "Remove");
    row.element = h("div", { class: "share-row" }, field("Percent", share.input), ...labels.elements, remove);
    rows.push(row);
    list.append(row.element);
  }
  given.forEach(add);
  const button = h("button", { type: "button", onclick: () => {
    add(null);
    rows.at(-1).share.input.focus();
  } }, "Add a share");
  const element = h("fieldset", {}, h("legend", {}, legend), help && h("p", { class: "faint" }, help), list, button);
  return {
    element,
    read: () => rows.map(({ share, labels }) => {
      if (share.read() === null) throw new Error(`“${legend}” has a share without a number: give its percent, or remove it.`);
      return { labels: labels.read(), share: share.read() };
    }),
  };
}

/** A button that does something once at a time, and says beside it what went wrong. */
export function action(words, act, { main = false, danger = false, label = null, pressed = null } = {}) {
  const wrong = h("span", { class: "wrong", role: "alert" });
  const button = h("button", { type: "button", class: main ? "main" : danger ? "danger" : null, "aria-label": label, "aria-pressed": pressed === null ? null : String(pressed) }, words);
  button.addEventListener("click", async () => {
    button.disabled = true;
    fill(wrong, "");
    try {
      await act();
    } catch (error) {
      fill(wrong, error.message);
    } finally {
      button.disabled = false;
    }
  });
  return h("span", { class: "action" }, button, wrong);
}
