// Before anything is drawn: the colours that were chosen last time. No module, so that it runs at once.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tensorbandits.theme");
  } catch {
    // Storage is switched off: the colours are those of the system.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
