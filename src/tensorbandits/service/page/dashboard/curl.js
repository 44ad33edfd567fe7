// Lines for the shell.

import { hasKey } from "./api.js";

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

/** The line that sends a request to this server; the key is left to whoever runs it. */
export function curl(method, path, body) {
  const parts = [`curl -X ${method} ${quoted(window.location.origin + path)}`];
  if (hasKey()) parts.push('-H "Authorization: Bearer $KEY"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return parts.join(" \\\n  ");
}
