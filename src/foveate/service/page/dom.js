// Elements, messages and delays that all parts of the page use.

/**
 * Make an element. Strings among the children become text nodes, so markup in them stays text.
 *
 * @param {string} tag Name of the element.
 * @param {Object} attributes `class`, `data-…`, `aria-…` and other attributes; functions are
 *     listeners of the event that they are named after. Those that are null are left out.
 * @param {...(Node|string|null)} children What it holds.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/**
 * Underline words of a text.
 *
 * @param {Object[]} matches `start` and `end` of each, in characters of Unicode.
 * @returns {(Node|string)[]} The text in pieces.
 */
export function underlined(text, matches = []) {
  const characters = [...text];
  const pieces = [];
  let at = 0;
  for (const { start, end } of [...matches].sort((a, b) => a.start - b.start)) {
    if (start < at) continue; // it matches another word, too
    const word = characters.slice(start, end).join("");
    pieces.push(characters.slice(at, start).join(""), element("span", { class: "match" }, word));
    at = end;
  }
  return [...pieces, characters.slice(at).join("")];
}

export const byId = (id) => document.getElementById(id);

/** Text that only screen readers show. */
export const hidden = (text) => element("span", { class: "visually-hidden" }, text);

/** Text that only screen readers show, and that is neither found nor copied. */
export const spoken = (text) => element("span", { class: "visually-hidden", "data-text": text });

/** Return the element of the sentence that an event is about; other elements may be over it. */
export function sentenceUnder({ target, clientX, clientY }) {
  const places = [target, ...document.elementsFromPoint(clientX, clientY)];
  return places.map((place) => place.closest?.("[data-sentence]")).find(Boolean) ?? null;
}

/** Say something to screen readers without moving the focus. */
export function announce(message) {
  byId("status").textContent = "";
  requestAnimationFrame(() => (byId("status").textContent = message)); // also if it is the same
}

/** Show an error until it is dismissed or the next action succeeds. */
export function showError(error) {
  if (error.name === "AbortError") return;
  byId("error-text").textContent = error.message;
  byId("error").hidden = false;
}

export function clearError() {
  byId("error").hidden = true;
  byId("error-text").textContent = "";
}

/** Move with the arrow keys between a field and the items of the list below it. */
export function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const around = event.target.closest(".panel, .library");
  const stops = [...(around?.querySelectorAll("input[type=search], li > .go") ?? [])];
  const at = stops.indexOf(event.target);
  const next = at < 0 ? null : stops[at + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

const RETRYING = 2000; // milliseconds
const PASSING = new Set([0, 503]); // no answer, and a service that is busy

/** Repeat a request that failed for the moment until it succeeds or is not wanted anymore. */
export async function persist(request, isWanted) {
  for (let failures = 0; ; failures++) {
    try {
      const answer = await request();
      if (failures) clearError();
      return answer;
    } catch (error) {
      if (!PASSING.has(error.status)) throw error;
      if (!failures) showError(error);
      await new Promise((resolve) => setTimeout(resolve, RETRYING));
      if (!isWanted()) throw error;
    }
  }
}

/** Return a function that runs `action` once it has not been called for some milliseconds. */
export function debounce(action, milliseconds) {
  let timer = 0;
  const debounced = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds, ...values);
  };
  debounced.cancel = () => clearTimeout(timer);
  return debounced;
}

const NUMBER = new Intl.NumberFormat("en");

/** Write a number of things: "1 page", "1,200 pages". */
export function count(number, noun) {
  return `${NUMBER.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Copy text; where the clipboard is only for secure pages, by way of a text field. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = element("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    const focused = document.activeElement;
    field.value = text;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    if (!isCopied) throw new Error("The browser does not let this page use the clipboard.");
  }
}
