// Elements. Text goes in as text only: labels are other people's words, never HTML.

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** Make an element: h("p", { class: "faint" }, "words", child, [more]). */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "selected") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Put other children into an element; nothing is touched if the words are the same as before. */
export function fill(element, ...children) {
  const list = present(children);
  if (list.length === 1 && typeof list[0] === "string" && element.childNodes.length === 1 && element.textContent === list[0]) {
    return element;
  }
  element.replaceChildren(...list);
  return element;
}

/** A table with a caption for those who cannot see the chart. Columns are { title, number }, cells text or elements. */
export function table(columns, rows, caption = null) {
  const cell = (tag, column, content) => h(tag, { class: column.number ? "number" : null, scope: tag === "th" ? "col" : null }, content);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption ?? "table" },
    h("table", {},
      caption && h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => cell("th", column, column.title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((content, at) => cell("td", columns[at], content)))))));
}

/** A chooser with a label; options are { value, text }. */
export function chooser(label, options, value, chosen) {
  const select = h("select", { onchange: () => chosen(select.value) },
    options.map((option) => h("option", { value: option.value, selected: option.value === value }, option.text)));
  select.value = value;
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A line for the shell, with a button that copies it. */
export function command(text) {
  const button = h("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy by hand";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return h("div", { class: "command" }, h("pre", { tabindex: "0", "aria-label": "command" }, h("code", {}, text)), button);
}

/** Words where there is nothing to draw yet. */
export function empty(title, ...children) {
  return h("div", { class: "empty" }, h("h3", {}, title), children);
}
