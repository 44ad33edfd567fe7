// API keys: who has one, what it may do; a new one is shown once, and each can be revoked.

import * as api from "./api.js";
import { ask, toast } from "./dialog.js";
import { command, fill, h, table } from "./dom.js";
import { action, field, text } from "./fields.js";
import * as f from "./format.js";
import { explained, mayMake } from "./steer.js";

const ROLES = { decide: "ask and tell", read: "see everything", admin: "do everything" };

export function keys(main, { who, failed, again }) {
  document.title = "Keys · tensorbandits";
  const list = h("div");
  const made = h("div");
  const nav = h("nav", { "aria-label": "Where you are" }, h("a", { href: "#/" }, "All bandits"));
  if (!mayMake(who)) {
    main.replaceChildren(nav, h("h1", {}, "Keys"), h("section", { class: "card" }, explained(who, "handle keys")));
    return { stop() {}, redraw() {} };
  }
  const poll = new api.Poll({ load: (signal) => api.get("/v1/keys", signal), show, failed, seconds: 10 });

  function show({ keys: found }) {
    const rows = [...found].sort((a, b) => (a.revoked ? 1 : 0) - (b.revoked ? 1 : 0) || b.created - a.created).map((one) => [
      one.name, h("span", {}, one.role, h("span", { class: "faint" }, ` – ${ROLES[one.role]}`)), one.bandits ? one.bandits.join(", ") : "all", h("code", {}, one.id), f.clock(one.created),
      one.revoked ? h("span", { class: "faint" }, `revoked ${f.clock(one.revoked)}`) : action("Revoke …", () => revoke(one), { label: `Revoke the key ${one.name}` })]);
    fill(list, found.length ? table([{ title: "name" }, { title: "may" }, { title: "bandits" }, { title: "id" }, { title: "made" }, { title: "state" }], rows, "Keys") : h("p", {}, "There are no keys: everybody who reaches this server may do everything. The first key must be an admin's; from then on everybody needs one."));
  }

  const revoke = (one) => ask({
    title: `Revoke the key ${one.name}?`, button: "Revoke", danger: true,
    parts: [h("p", {}, `Whoever uses it (${one.id}, ${one.role}) is refused at once here, and within seconds elsewhere. It cannot be undone: make another key instead.`)],
    act: async () => {
      await api.remove(`/v1/keys/${encodeURIComponent(one.id)}`);
      toast(`The key ${one.name} was revoked.`);
      poll.again();
    },
  });

  const name = text("", { required: true, maxlength: "100" });
  const role = h("select", {}, Object.entries(ROLES).map(([value, words]) => h("option", { value, selected: value === (who.open ? "admin" : "decide") }, `${value}: ${words}`)));
  const bandits = text("", { placeholder: "all" });
  const issue = action("Make the key …", async () => {
    if (!name.value.trim()) throw new Error("Say who will have the key.");
    const some = bandits.value.split(/[\s,;]+/).filter(Boolean);
    const body = { name: name.value.trim(), role: role.value, ...(some.length ? { bandits: some } : {}) };
    await ask({
      title: "Make this key?", button: "Make it",
      parts: [table([{ title: "what" }, { title: "is" }], [["For", body.name], ["It may", ROLES[body.role]], ["Bandits", some.length ? some.join(", ") : "all"]], "The key"),
        who.open ? h("p", {}, "It is the first key: from then on everybody needs one, this page too.") : null],
      act: async () => shown(await api.post("/v1/keys", body)),
    });
  }, { main: true });

  /** The new key, this once. */
  function shown(key) {
    name.value = "";
    bandits.value = "";
    poll.stop();
    fill(made, h("section", { class: "card alert good" }, h("h2", {}, `The key for ${key.name}`), h("p", {}, "It is shown this once: copy it now to where it is needed. Only a hash of it is kept."), command(key.key),
      who.open ? action("Sign in with it here", async () => { api.setKey(key.key); again(); }, { main: true }) : null));
    if (!who.open) poll.start();
    made.querySelector("button").focus();
  }

  main.replaceChildren(nav, h("h1", {}, "Keys"), made, h("section", { class: "card" }, list),
    h("section", { class: "card" }, h("h2", {}, "New key"), h("form", { onsubmit: (event) => { event.preventDefault(); issue.querySelector("button").click(); } },
      h("div", { class: "fields" }, field("For whom", name, "A person, a team or a program"), field("It may", role), field("Only for these bandits", bandits, "Names, separated by commas; empty: all")), issue)));
  poll.start();
  return { stop: () => poll.stop(), redraw() {} };
}
