// Applies the chosen colors before the page is painted, so that it does not flash.
// The choice is kept in localStorage; without one, the system's setting decides in the style sheet.
"use strict";

(() => {
  const KEY = "foveate.theme";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const saved = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden
    }
  };
  const save = (theme) => {
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // The choice then lasts as long as the page.
    }
  };
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

  const chosen = saved();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      save(root.dataset.theme);
      show();
    });
    dark.addEventListener("change", show);
    show();
  });
})();
