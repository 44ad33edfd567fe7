// Talking with the server: the key, errors in words, and asking again and again without asking twice at once.

const STORED = "tensorbandits.key";
let key = null;
try {
  key = sessionStorage.getItem(STORED);
} catch {
  // Storage is switched off: the key is asked for after each reload.
}

export const hasKey = () => key !== null;

export function setKey(value) {
  key = value;
  try {
    if (value === null) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, value);
  } catch {
    // It is kept in memory.
  }
}

/** An answer that is an error, with the server's words. */
export class Refused extends Error {
  constructor(status, code, message, request, wait) {
    super(message);
    Object.assign(this, { status, code, request, wait });
  }
}

const json = (answer) => answer.json();

/** Send a request, and return what the answer says: its JSON, or what ``read`` makes of it. */
export async function send(method, path, body, signal, read = json) {
  const headers = { Accept: "application/json" };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "The server cannot be reached.", null, null);
  }
  const found = await (answer.ok ? read : json)(answer).catch(() => null);
  if (answer.ok) return found;
  const told = found?.error ?? {};
  throw new Refused(answer.status, told.code ?? "error", told.message ?? `The server answered with status ${answer.status}.`, told.request ?? answer.headers.get("X-Request-Id"), Number(answer.headers.get("Retry-After")) || null);
}

/** Fetch a file with the key, and let the browser save it. */
export async function download(path, name) {
  const answer = await fetch(path, { headers: key === null ? {} : { Authorization: `Bearer ${key}` }, cache: "no-store", credentials: "omit" }).catch(() => null);
  if (!answer?.ok) throw new Refused(answer?.status ?? 0, "error", answer ? `The server answered with status ${answer.status}.` : "The server cannot be reached.", null, null);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body) => send("POST", path, body);
export const remove = (path) => send("DELETE", path);
export const patch = (path, body) => send("PATCH", path, body);
export const text = (path) => send("GET", path, undefined, undefined, (answer) => answer.text());
export const write = (method, path, body) => send(method, path, body);
export const me = () => get("/v1/me");
export const bandits = (signal) => get("/v1/bandits", signal);
export const overviews = (names, signal) => get(`/v1/overviews?${new URLSearchParams(names.map((name) => ["name", name]))}`, signal);
export const ready = (signal) => get("/readyz", signal);
export const banditPath = (name) => `/v1/bandits/${encodeURIComponent(name)}`;

export function view(name, what, params = {}, signal = undefined) {
  const given = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const query = given.toString();
  return get(`${banditPath(name)}/view/${what}${query ? `?${query}` : ""}`, signal);
}

const LONGEST = 60; // seconds between two tries

/**
 * Ask every so many seconds, one at a time, while the page is seen; after errors more seldom.
 * `load(signal)` asks, `show(found)` draws, `failed(error, seconds)` says what is wrong, or null when all is well.
 */
export class Poll {
  constructor({ load, show, failed, seconds = 2 }) {
    Object.assign(this, { load, show, failed, seconds });
    this.errors = 0;
    this.timer = null;
    this.running = null;
    this.stopped = true;
    this.seen = () => (document.hidden ? this.pause() : this.now());
  }

  start() {
    this.stopped = false;
    document.addEventListener("visibilitychange", this.seen);
    this.now();
    return this;
  }

  stop() {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.seen);
    this.pause();
    this.running?.abort();
    this.running = null;
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  /** Ask now; what is under way is of another question, or old, and is given up. */
  again() {
    this.running?.abort();
    this.running = null;
    this.now();
  }

  async now() {
    if (this.stopped || this.running) return;
    this.pause();
    const mine = new AbortController();
    this.running = mine;
    let wait = this.seconds;
    try {
      const found = await this.load(mine.signal);
      if (this.running !== mine) return;
      await this.show(found);
      if (this.errors) this.failed(null);
      this.errors = 0;
    } catch (error) {
      if (this.running !== mine || error.name === "AbortError") return;
      this.errors += 1;
      wait = Math.min(Math.max(this.seconds * 2 ** this.errors, error.wait ?? 0), LONGEST);
      this.failed(error, wait);
      if (!(error instanceof Refused)) console.error(error);
    } finally {
      if (this.running === mine) {
        this.running = null;
        if (!this.stopped && !document.hidden) this.timer = setTimeout(() => this.now(), 1000 * wait);
      }
    }
  }
}
