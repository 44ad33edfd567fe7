// The page: who looks, which page of it is shown, its colours, and what is wrong.

import * as api from "./api.js";
import { bandit } from "./bandit.js";
import { create } from "./create.js";
import { command, h } from "./dom.js";
import { keys } from "./keys.js";
import { bandits } from "./list.js";

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const leave = document.getElementById("leave");
const handle = document.getElementById("keys");
let shown = null; // what is on the page: { stop, redraw }
let who = null;

// What is wrong.

function failed(error, seconds) {
  if (error === null) {
    trouble.hidden = true;
    return;
  }
  if (error.status === 401) {
    signIn(api.hasKey() ? "This key is not known, or was revoked. Give another." : null);
    return;
  }
  const again = seconds ? ` Trying again in ${Math.round(seconds)} s.` : "";
  const which = error.request ? ` (request ${error.request})` : "";
  trouble.textContent = `${error.message}${which}${again}`;
  trouble.hidden = false;
}

// Signing in.

function signIn(words) {
  stop();
  trouble.hidden = true;
  leave.hidden = handle.hidden = true;
  document.title = "Sign in · tensorbandits";
  const field = h("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", required: true, spellcheck: "false", placeholder: "tb_…", "aria-describedby": "key-help" });
  const wrong = h("p", { class: "wrong", role: "alert" }, words ?? "");
  const form = h("form", { class: "card sign-in", method: "post" },
    h("h1", {}, "Sign in"),
    h("label", { for: "key" }, "API key"), field,
    h("p", { id: "key-help", class: "faint" }, "A key with the role read shows everything; with admin it also steers: settings, levels, rules, pause. It is kept until this tab is closed. Keys are made with ", h("code", {}, "tensorbandits keys add"), "."),
    wrong, h("button", { type: "submit", class: "main" }, "Sign in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = field.value.trim();
    if (!/^[\x21-\x7e]+$/.test(value)) {
      wrong.textContent = "A key has no spaces and no accented letters; copy it again as it was shown.";
      return;
    }
    api.setKey(value);
    try {
      who = await api.me();
      route();
    } catch (error) {
      if (error.status === 401) api.setKey(null);
      wrong.textContent = error.status === 401 ? "This key is not known, or was revoked." : error.message;
      field.select();
    }
  });
  main.replaceChildren(form);
  field.focus();
}

leave.addEventListener("click", () => {
  api.setKey(null);
  begin();
});

// Colours.

const theme = document.getElementById("theme");
const isDark = () => document.documentElement.dataset.theme === "dark";

function nameTheme() {
  theme.textContent = isDark() ? "☀ Light" : "☾ Dark";
  theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
}

theme.addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("tensorbandits.theme", next);
  } catch {
    // The choice holds until the page is left.
  }
});
new MutationObserver(() => {
  nameTheme();
  shown?.redraw();
}).observe(document.documentElement, { attributeFilter: ["data-theme"] });

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if ((window.innerWidth < 640) !== (width < 640)) shown?.redraw();
  width = window.innerWidth;
});

// Which page: "#/", or "#/name/tab"; "-" is no name of a bandit, and what follows it a page of another kind.

function stop() {
  shown?.stop();
  shown = null;
}

function route() {
  const [, name, tab] = window.location.hash.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  leave.hidden = !api.hasKey();
  handle.hidden = who.role !== "admin" || who.bandits !== null;
  if (name && shown?.name === name) {
    shown.open(tab);
    return;
  }
  stop();
  trouble.hidden = true;
  if (name === "-" && tab === "new") shown = create(main, { who });
  else if (name === "-" && tab === "keys") shown = keys(main, { who, failed, again: begin });
  else shown = name ? bandit(main, { name, tab, who, failed, unknown, quarantined }) : bandits(main, { who, failed });
}

/** What is shown in the place of a bandit that cannot be shown. */
function instead(title, ...parts) {
  stop();
  trouble.hidden = true;
  document.title = `${title} · tensorbandits`;
  main.replaceChildren(h("nav", { "aria-label": "Where you are" }, h("a", { href: "#/" }, "All bandits")), h("h1", {}, title),
    h("section", { class: "card" }, parts, h("p", {}, h("a", { class: "button main", href: "#/" }, "See all bandits"))));
  main.focus();
}

const unknown = (name) => instead("No such bandit", h("p", {}, "There is no bandit ", h("strong", {}, name), " that your key may see. It may have been deleted, its name may be written otherwise, or your key is not for it."));

/** A bandit whose log cannot be read: it decides nothing until somebody with access to the server has mended it. */
const quarantined = (name, error) => instead(`${name} is quarantined`,
  h("p", {}, "It makes no decisions, as its log cannot be read. All other bandits go on."), h("p", {}, `${error.message}.`),
  h("p", {}, "Somebody with access to the server can look at it, and start the server again once it is mended:"), command(`tensorbandits repair ${name}`));

window.addEventListener("hashchange", () => {
  if (window.location.hash === "#main") return;
  if (who) route();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

async function begin() {
  stop();
  who = null;
  nameTheme();
  try {
    who = await api.me();
  } catch (error) {
    failed(error, 5);
    if (error.status !== 401) setTimeout(begin, 5000);
    return;
  }
  trouble.hidden = true;
  route();
}

begin();
