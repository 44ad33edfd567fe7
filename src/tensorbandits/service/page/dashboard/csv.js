// Reading levels from what people paste, and modes with their levels from a CSV file.

/** Labels from pasted text: one per line, or separated by tabs, commas or semicolons; each once, in their order. */
export function pasted(text) {
  const parts = /[\n\r]/.test(text.trim()) ? text.split(/[\n\r]+/) : text.split(/[\t,;]/);
  return [...new Set(parts.map((one) => one.trim().replace(/^"(.*)"$/, "$1")).filter((one) => one !== ""))];
}

/** Rows of a CSV file; the separator is whichever of comma, semicolon and tab its first line has most. */
export function rows(text) {
  const first = text.slice(0, text.search(/[\r\n]|$/)).replace(/"[^"]*"/g, "");
  const separator = [",", ";", "\t"].map((one) => [one, first.split(one).length]).sort((a, b) => b[1] - a[1])[0][0];
  const found = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const end = () => {
    row.push(cell);
    cell = "";
  };
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; at += 1) {
    const letter = text[at];
    if (quoted && letter === '"' && text[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (letter === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (!quoted && letter === separator) end();
    else if (!quoted && (letter === "\n" || letter === "\r")) {
      if (letter === "\r" && text[at + 1] === "\n") at += 1;
      end();
      if (row.length > 1 || row[0] !== "") found.push(row);
      row = [];
    } else cell += letter;
  }
  if (quoted) throw new Error("The file ends inside a quoted value: a quotation mark is missing.");
  end();
  if (row.length > 1 || row[0] !== "") found.push(row);
  return found;
}

/** The columns of a CSV file with a header: { name, levels }, each level once. */
export function columns(text) {
  const [header, ...body] = rows(text);
  if (!header || !body.length) throw new Error("The file has no rows below its header: the first line names the columns, the others have their labels.");
  const names = header.map((one) => one.trim());
  const twice = names.find((one, at) => one === "" || names.indexOf(one) !== at);
  if (twice !== undefined) throw new Error(twice === "" ? "A column of the file has no name in the first line." : `Two columns of the file are named “${twice}”.`);
  return names.map((name, at) => ({ name, levels: [...new Set(body.map((row) => (row[at] ?? "").trim()).filter((one) => one !== ""))] }));
}

const isNumber = (one) => /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(one) && String(Number(one)) === one.replace(/^\+/, "");

/** Whether all labels are numbers, which programs may send as numbers. */
export const areNumbers = (levels) => levels.length > 0 && levels.every(isNumber);
