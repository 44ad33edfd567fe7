// Before anything is drawn: the colours that were chosen last time, or else the system's. No module, so that it runs at once.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const use = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("tensorbandits.theme");
    } catch {
      // Storage is switched off: the colours are those of the system.
    }
    document.documentElement.dataset.theme = ["light", "dark"].includes(chosen) ? chosen : dark.matches ? "dark" : "light";
  };
  use();
  dark.addEventListener("change", use);
})();
