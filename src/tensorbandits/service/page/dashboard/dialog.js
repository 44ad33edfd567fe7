// Questions before something is done, and word of what was done, with a way back.

import { fill, h } from "./dom.js";

let numbers = 0;

/**
 * Ask before something is done. `act` does it, and the dialog closes once it has; what it throws is said there.
 * Returns whether it was done. `ready`, if given, is a function that says whether the button may be pressed.
 */
export function ask({ title, parts, button, act, danger = false, ready = null, cancel = "Cancel" }) {
  return new Promise((answer) => {
    numbers += 1;
    let made = false;
    const id = `dialog-${numbers}`;
    const wrong = h("p", { class: "wrong", role: "alert" });
    const go = h("button", { type: "submit", class: danger ? "main danger" : "main" }, button);
    const back = h("button", { type: "button", onclick: () => dialog.close() }, cancel);
    const form = h("form", { method: "dialog" }, h("h2", { id }, title), parts, wrong,
      h("div", { class: "buttons" }, back, go));
    const dialog = h("dialog", { class: "card", "aria-labelledby": id }, form);
    const check = () => { go.disabled = ready !== null && !ready(); };
    form.addEventListener("input", check);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (go.disabled) return;
      go.disabled = true;
      fill(wrong, "");
      try {
        await act();
        made = true;
        dialog.close();
      } catch (error) {
        fill(wrong, error.message);
        check();
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(made);
    });
    document.body.append(dialog);
    check();
    dialog.showModal();
    (form.querySelector("input, select, textarea") ?? back).focus(); // so that Enter, pressed once too often, does nothing
  });
}

const SECONDS = 20; // that word of what was done stays
let leaving = null;

/** Say what was done, at the edge of the page; `way` is { text, act } of a button beside it. */
export function toast(words, way = null) {
  const place = document.getElementById("toast");
  clearTimeout(leaving);
  const gone = () => place.replaceChildren();
  const buttons = way ? [h("button", { type: "button", onclick: () => { gone(); way.act(); } }, way.text)] : [];
  place.replaceChildren(h("p", {}, words), ...buttons, h("button", { type: "button", class: "quiet", "aria-label": "Close this message", onclick: gone }, "✕"));
  leaving = setTimeout(gone, 1000 * SECONDS);
}
