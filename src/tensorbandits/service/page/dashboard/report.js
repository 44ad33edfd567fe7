// The report of the last week as a file: for people who never open the page.

import * as api from "./api.js";
import { h } from "./dom.js";

const PERIODS = [["7d", "last 7 days"], ["30d", "last 30 days"], ["365d", "last year"]];

/** A button that has the server write the report, and saves it; beside it, of which time. */
export function reportButton(name, failed) {
  const since = h("select", { "aria-label": "Period of the report" }, PERIODS.map(([value, text]) => h("option", { value }, text)));
  const button = h("button", { type: "button" }, "Report");
  const said = h("span", { class: "hidden", role: "status" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "Writing …";
    try {
      const text = await api.text(`${api.banditPath(name)}/report?since=${since.value}`);
      const place = URL.createObjectURL(new Blob([text], { type: "text/html" }));
      h("a", { href: place, download: `${name}-report.html` }).click();
      setTimeout(() => URL.revokeObjectURL(place), 60_000);
      said.textContent = "The report was saved.";
    } catch (error) {
      failed(error);
    } finally {
      button.disabled = false;
      button.textContent = "Report";
    }
  });
  return h("div", { class: "report" }, button, since, said);
}
