// The page of the HTTP API: what /openapi.json says, to read, to search, and to try.

import { command, fill, h, table } from "./dom.js";

const STORED = "tensorbandits.key"; // of the dashboard, in the same tab
const MOST = 20_000; // characters of an answer that are shown
const main = document.getElementById("main");
let schemas = {};

const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);
const words = (text) => (text ?? "").split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) =>
  part.startsWith("`") ? h("code", {}, part.slice(1, -1)) : part.startsWith("**") ? h("strong", {}, part.slice(2, -2)) : part);

/** What a value may be, in words, with links to what has a name. */
function kind(schema) {
  if (!schema || !Object.keys(schema).length) return ["anything"];
  if (schema.$ref) return [h("a", { href: `#schema-${nameOf(schema.$ref)}` }, nameOf(schema.$ref))];
  if (schema.const !== undefined) return [h("code", {}, JSON.stringify(schema.const))];
  if (schema.enum) return schema.enum.flatMap((one, at) => [at ? " or " : null, h("code", {}, JSON.stringify(one))]);
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.flatMap((one, at) => [at ? " or " : null, ...kind(one)]);
  if (schema.allOf) return schema.allOf.flatMap(kind);
  if (schema.type === "array") return ["list of ", ...kind(schema.items)];
  if (schema.type === "object" && schema.additionalProperties) return ["object of ", ...kind(schema.additionalProperties === true ? {} : schema.additionalProperties)];
  return [schema.type ?? "anything"];
}

function fields(schema) {
  const properties = Object.entries(schema.properties ?? {});
  if (!properties.length) return h("p", {}, kind(schema));
  const required = new Set(schema.required ?? []);
  const rows = properties.map(([name, one]) => [h("code", {}, name), required.has(name) ? "required" : "", kind(one), words(one.description)]);
  return table([{ title: "field" }, { title: "" }, { title: "what" }, { title: "meaning" }], rows, "Fields");
}

const bodyOf = (operation) => Object.entries(operation.requestBody?.content ?? {});
const exampleOf = (content) => Object.values(content?.examples ?? {})[0]?.value ?? content?.example;
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Inputs that send a request to this server. */
function trial(method, path, operation) {
  const inputs = (operation.parameters ?? []).map((one) => {
    const field = h("input", { type: "text", value: one.in === "path" ? exampleOf(one.schema) ?? one.schema?.examples?.[0] ?? "" : "", spellcheck: "false" });
    return { ...one, field };
  });
  const [media, content] = bodyOf(operation).find(([one]) => !one.includes("parquet")) ?? [];
  const body = media && h("textarea", { "aria-label": `Body, ${media}`, spellcheck: "false" });
  if (body) body.value = shown(exampleOf(content) ?? {});
  const said = h("div", { "aria-live": "polite" });
  const secret = h("input", { type: "password", autocomplete: "off", spellcheck: "false", placeholder: "tb_…" });
  try {
    secret.value = sessionStorage.getItem(STORED) ?? "";
  } catch {
    // Storage is switched off: the key is typed in.
  }
  async function send(event) {
    event.preventDefault();
    const place = new URL(path.replace(/\{(\w+)\}/g, (whole, name) => encodeURIComponent(inputs.find((one) => one.in === "path" && one.name === name)?.field.value ?? whole)), location.origin);
    const headers = {};
    for (const one of inputs) {
      if (one.field.value === "") continue;
      if (one.in === "query") place.searchParams.set(one.name, one.field.value);
      if (one.in === "header") headers[one.name] = one.field.value;
    }
    if (secret.value) headers.Authorization = `Bearer ${secret.value}`;
    if (body) headers["Content-Type"] = media;
    fill(said, h("p", { class: "faint" }, "Sent …"));
    try {
      const answer = await fetch(place, { method, headers, body: body?.value, credentials: "omit", cache: "no-store" });
      const text = await answer.text();
      let read = text;
      try {
        read = JSON.stringify(JSON.parse(text), null, 2);
      } catch {
        // It is no JSON, and shown as it is.
      }
      fill(said, h("p", {}, h("strong", {}, `${answer.status} ${answer.statusText}`), ` · request ${answer.headers.get("X-Request-Id") ?? ""}`),
        read && h("pre", { class: "answer", tabindex: "0", "aria-label": "answer" }, read.length > MOST ? `${read.slice(0, MOST)} …` : read));
    } catch {
      fill(said, h("p", { class: "wrong" }, "The server cannot be reached."));
    }
  }
  const labelled = (text, field) => h("label", { class: "field" }, h("span", {}, text), field);
  return h("form", { class: "try", onsubmit: send }, h("h4", {}, "Try it, on this server"),
    h("div", { class: "controls" }, inputs.map((one) => labelled(`${one.name}${one.required ? "" : ` (${one.in}, if you like)`}`, one.field)),
      operation.security && labelled("API key, if the service has keys", secret)),
    body, h("div", { class: "buttons" }, h("button", { class: "main" }, `Send ${method}`)), said);
}

function curl(method, path, operation) {
  const [media, content] = bodyOf(operation).find(([one]) => !one.includes("parquet")) ?? [];
  const address = `${location.origin}${path.replace("{name}", "offers").replace("{id}", "order-17")}`;
  const key = operation.security ? ' \\\n  -H "Authorization: Bearer $KEY"' : "";
  const body = media ? ` \\\n  -H 'Content-Type: ${media}' -d '${(media.includes("json") && typeof exampleOf(content) !== "string" ? JSON.stringify(exampleOf(content) ?? {}) : exampleOf(content) ?? "").replaceAll("'", "'\\''")}'` : "";
  return command(`curl -X ${method} '${address}'${key}${body}`);
}

function operationBox(method, path, operation) {
  const box = h("details", { class: "operation", id: operation.operationId });
  const found = `${method} ${path} ${operation.operationId} ${operation.description ?? ""}`.toLowerCase();
  box.append(h("summary", {}, h("span", { class: `method ${method}` }, method), h("span", { class: "path" }, path), h("span", { class: "faint" }, operation.description?.split(/(?<=\.) /)[0])));
  const open = () => {
    if (!box.open || box.children.length > 1) return;
    const parameters = (operation.parameters ?? []).map((one) => [h("code", {}, one.name), one.in, one.required ? "required" : "", kind(one.schema), words(one.description)]);
    const answers = Object.entries(operation.responses ?? {}).map(([status, one]) => [status, words(one.description), Object.values(one.content ?? {}).slice(0, 1).flatMap((content) => kind(content.schema))]);
    const [media, content] = bodyOf(operation)[0] ?? [];
    const schema = content?.schema?.$ref ? schemas[nameOf(content.schema.$ref)] : content?.schema;
    box.append(h("div", {}, h("p", {}, words(operation.description)),
      parameters.length ? [h("h4", {}, "Parameters"), table([{ title: "name" }, { title: "in" }, { title: "" }, { title: "what" }, { title: "meaning" }], parameters, "Parameters")] : null,
      media ? [h("h4", {}, `Body: ${bodyOf(operation).map(([one]) => one).join(" or ")}`), schema?.properties && fields(schema)] : null,
      h("h4", {}, "Answers"), table([{ title: "status" }, { title: "meaning" }, { title: "what" }], answers, "Answers"),
      h("h4", {}, "With curl"), curl(method, path, operation), trial(method, path, operation)));
  };
  box.addEventListener("toggle", open);
  return { box, found, tag: operation.tags?.[0] ?? "other" };
}

function listed(boxes) {
  const parts = new Map();
  for (const one of boxes) parts.set(one.tag, [...(parts.get(one.tag) ?? []), one]);
  return [...parts].map(([tag, some]) => ({ some, part: h("section", {}, h("h2", { class: "group" }, tag), some.map((one) => one.box)) }));
}

/** Open what the address names, also inside a closed box. */
function go() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.tagName === "DETAILS") named.open = true;
  named.scrollIntoView();
}

function draw(document_) {
  schemas = document_.components.schemas;
  const boxes = Object.entries(document_.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => operationBox(method.toUpperCase(), path, operation)));
  const parts = listed(boxes);
  const count = h("p", { class: "faint", "aria-live": "polite" });
  const search = h("input", { type: "text", spellcheck: "false", placeholder: "ask, reward, levels …" });
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { box, found } of boxes) box.hidden = !wanted.every((word) => found.includes(word));
    for (const { some, part } of parts) part.hidden = some.every((one) => one.box.hidden);
    const left = boxes.filter((one) => !one.box.hidden).length;
    count.textContent = wanted.length ? `${left} of ${boxes.length} operations` : "";
  });
  const problems = (document_["x-problems"] ?? []).map((one) => [h("code", { id: `error-${one.code}` }, one.code), String(one.status), one.meaning]);
  const kinds = Object.entries(schemas).sort(([a], [b]) => a.localeCompare(b)).map(([name, schema]) => {
    const box = h("details", { class: "operation", id: `schema-${name}` }, h("summary", {}, h("span", { class: "path" }, name), h("span", { class: "faint" }, schema.description?.split("\n")[0])));
    box.addEventListener("toggle", () => box.open && box.children.length === 1 && box.append(h("div", {}, fields(schema))));
    return box;
  });
  fill(main, h("h1", { class: "title" }, `HTTP API, release ${document_.info.version}`), document_.info.description.split("\n\n").map((one) => h("p", {}, words(one))),
    h("div", { class: "controls" }, h("label", { class: "field" }, h("span", {}, "Search"), search)), count, parts.map((one) => one.part),
    h("h2", { class: "group" }, "Errors"), h("p", {}, "An answer that is no success is a problem document (RFC 9457). Its code is one of these."),
    table([{ title: "code" }, { title: "status", number: true }, { title: "meaning" }], problems, "Codes of errors"),
    h("h2", { class: "group" }, "Kinds of values"), kinds);
  go();
  window.addEventListener("hashchange", go);
}

try {
  const answer = await fetch("/openapi.json", { credentials: "omit" });
  if (!answer.ok) throw new Error(String(answer.status));
  draw(await answer.json());
} catch (error) {
  fill(main, h("p", { class: "wrong", role: "alert" }, "The description of the API could not be read from /openapi.json. Load this page again."));
  console.error(error);
}
