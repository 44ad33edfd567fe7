// What can be done, where it is suggested: each with a button for those who may, and as a line of Python for all.

import * as api from "./api.js";
import { command, h } from "./dom.js";

// By the method of a bandit: how the server is asked for it.
const ROUTES = {
  change: ["PATCH", ""],
  retire_level: ["POST", "/levels/retire"],
  restore_level: ["POST", "/levels/restore"],
};

const make = (name, change) => {
  const [[what, body]] = Object.entries(change);
  const [method, place] = ROUTES[what];
  return api.write(method, `${api.banditPath(name)}${place}`, body);
};

// What was done last, by bandit: a change of levels makes the whole view anew, and it must still be possible to take it back.
const last = new Map();

export class Actions {
  constructor({ name, who, again }) {
    Object.assign(this, { name, who, again });
    this.said = h("p", { role: "status" });
    this.list = h("div");
    this.element = h("section", { class: "card", hidden: true }, h("h3", {}, "What to do"), this.said, this.list);
    this.shown = null; // what the list was made for
    this.say();
  }

  /** Say what was done last, with a button that takes it back. */
  say() {
    const { words, undo } = last.get(this.name) ?? {};
    const back = undo && h("button", { type: "button", onclick: () => this.run(undo, "Taken back.", null, back) }, "Undo");
    this.said.className = "";
    this.said.replaceChildren(...(words ? [words, " "] : []), ...(back ? [back] : []));
  }

  show(actions) {
    this.element.hidden = !actions.length && !last.has(this.name);
    const next = JSON.stringify(actions);
    if (next === this.shown) return;
    this.shown = next;
    this.list.replaceChildren(...actions.map((one) => this.row(one)));
  }

  row(one) {
    const words = one.words.charAt(0).toUpperCase() + one.words.slice(1);
    const parts = [h("p", {}, `${words}.`)];
    if (one.change && this.who.role === "admin") {
      const button = h("button", { type: "button", class: "main", onclick: () => this.run(one.change, `Done: ${one.words}.`, one.undo, button) }, "Do it");
      button.setAttribute("aria-label", `Do it: ${one.words}`);
      parts.push(h("div", {}, button), h("p", { class: "faint" }, "Or in Python:"));
    } else parts.push(h("p", { class: "faint" }, one.change ? "Somebody with an admin key can do it here, or in Python:" : "In Python:"));
    return h("div", { class: "suggested" }, parts, command(one.python));
  }

  async run(change, words, undo, button) {
    button.disabled = true;
    try {
      await make(this.name, change);
      last.set(this.name, { words, undo });
      this.say();
      this.shown = null; // what can be done is another now
      this.again();
    } catch (error) {
      button.disabled = false;
      this.said.className = "wrong";
      this.said.replaceChildren(error.message);
    }
  }
}
