// Lists of found sentences, and requests of which only the newest counts.

import { citation, placeName } from "./citation.js";
import { announce, clearError, copyText, element, hidden, showError } from "./dom.js";

/** Runs requests for a panel; the answer to one is dropped when another has been started. */
export class Latest {
  constructor(panel) {
    this.panel = panel;
    this.running = null;
  }

  cancel() {
    this.running?.abort();
    this.running = null;
    this.panel.removeAttribute("aria-busy");
  }

  /**
   * @param {Function} request Takes an AbortSignal and gives a promise.
   * @param {Function} show Called with what was promised.
   */
  async run(request, show) {
    this.cancel();
    const mine = new AbortController();
    this.running = mine;
    this.panel.setAttribute("aria-busy", "true");
    try {
      const answer = await request(mine.signal);
      if (this.running !== mine) return;
      clearError();
      show(answer);
    } catch (error) {
      if (this.running === mine) showError(error);
    } finally {
      if (this.running === mine) this.cancel();
    }
  }
}

/** Copy words, and say so. */
export async function copy(text) {
  try {
    await copyText(text);
    announce("Copied.");
  } catch (error) {
    showError(error);
  }
}

/**
 * Make an item of a list of results.
 *
 * @param {Object} result `span`, `title` (of the document), and optionally `text` instead of the
 *     span's, `before` and `after`, `score` from 0 to 1, and `source`, which is named if given.
 * @param {Function} onGo Called when the result is chosen.
 */
export function resultItem({ span, title, text = span.text, ...rest }, onGo) {
  const words = element("span", { class: "words" });
  if (rest.before) words.append(element("span", { class: "context" }, rest.before), " ");
  if (span.speaker) words.append(element("span", { class: "speaker" }, span.speaker), " ");
  words.append(text);
  if (rest.after) words.append(" ", element("span", { class: "context" }, rest.after));
  const place = element("span", { class: "place" }, placeName(span) || "Beginning");
  if (rest.source) place.prepend(element("span", { class: "source" }, rest.source), " ");
  return element(
    "li",
    { class: "result" },
    element("button", { type: "button", class: "go", click: onGo }, words, place),
    element(
      "div",
      { class: "foot" },
      typeof rest.score === "number" ? score(rest.score) : null,
      element(
        "button",
        {
          type: "button",
          class: "quiet copy",
          title: "Copy with title, section and page",
          click: () => copy(citation(text, title, span)),
        },
        "Copy",
        hidden(" with citation"),
      ),
    ),
  );
}

function score(value) {
  const bar = element("span", { class: "bar" });
  bar.style.width = `${Math.round(100 * Math.min(Math.max(value, 0), 1))}%`;
  return element(
    "span",
    { class: "score", title: `Score ${value.toFixed(2)}` },
    hidden(`Score ${value.toFixed(2)}`),
    element("span", { class: "length", "aria-hidden": "true" }, bar),
  );
}
