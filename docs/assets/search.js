// Looks words up in the index that docs/search.py wrote. Everything is beside the pages, so it works without a server.
(function () {
  "use strict";
  const root = document.currentScript.src.replace(/assets\/search\.js.*$/, "");
  const most = 12;

  function words(text) {
    return text.toLowerCase().split(/[^\p{L}\p{N}_.]+/u).filter(Boolean);
  }

  // How well a section fits: every word must begin a word of it; headings and names of pages count more.
  function score(section, wanted) {
    let total = 0;
    for (const word of wanted) {
      let best = 0;
      for (const [field, weight] of [["page", 4], ["heading", 8], ["text", 1]]) {
        const at = section.words[field].filter((one) => one.startsWith(word));
        if (at.length) {
          const whole = at.includes(word) ? 2 : 1;
          best = Math.max(best, weight * whole + Math.min(at.length, 5) / 10);
        }
      }
      if (!best) return 0;
      total += best;
    }
    return total;
  }

  function find(query) {
    const wanted = words(query);
    if (!wanted.length) return [];
    const found = [];
    for (const section of window.searchIndex) {
      section.words ??= { page: words(section.page), heading: words(section.heading), text: words(section.text) };
      const value = score(section, wanted);
      if (value) found.push([value, section]);
    }
    found.sort((a, b) => b[0] - a[0]);
    return found.slice(0, most).map((pair) => pair[1]);
  }

  // The words around the first that was looked for.
  function excerpt(section, wanted) {
    const text = section.text;
    const at = Math.max(0, ...wanted.map((word) => text.toLowerCase().indexOf(word)));
    const begin = Math.max(0, at - 40);
    return (begin ? "… " : "") + text.slice(begin, begin + 120) + (begin + 120 < text.length ? " …" : "");
  }

  function show(list, query) {
    list.replaceChildren();
    const found = find(query);
    for (const section of found) {
      const link = document.createElement("a");
      link.href = root + section.url + (section.anchor ? "#" + section.anchor : "");
      const title = document.createElement("strong");
      title.textContent = section.page === section.heading || !section.heading
        ? section.page : section.page + ": " + section.heading;
      const words_ = document.createElement("span");
      words_.textContent = excerpt(section, words(query));
      link.append(title, words_);
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
    }
    if (query.trim() && !found.length) {
      const item = document.createElement("li");
      item.textContent = "No page has all of these words.";
      list.append(item);
    }
    list.hidden = !query.trim();
  }

  document.addEventListener("DOMContentLoaded", function () {
    const place = document.querySelector(".rst-content");
    if (!place || !window.searchIndex) return;
    const box = document.createElement("div");
    box.className = "search";
    box.setAttribute("role", "search");
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Search (press /)";
    input.setAttribute("aria-label", "Search the documentation");
    const list = document.createElement("ul");
    list.setAttribute("aria-live", "polite");
    list.hidden = true;
    box.append(input, list);
    place.prepend(box);
    input.addEventListener("input", () => show(list, input.value));
    input.addEventListener("keydown", function (event) {
      if (event.key === "Escape") { input.value = ""; show(list, ""); }
      if (event.key === "Enter") list.querySelector("a")?.click();
    });
    document.addEventListener("keydown", function (event) {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing) { event.preventDefault(); input.focus(); }
    });
    const given = new URLSearchParams(location.search).get("q");
    if (given) { input.value = given; show(list, given); }
  });
})();
