// Lists of found sentences, and requests of which only the newest counts.

import { citation, placeParts } from "./citation.js";
import {
  announce,
  clearError,
  copyText,
  debounce,
  element,
  hidden,
  showError,
  underlined,
} from "./dom.js";

const WAITING = 1500; // milliseconds without an answer until that is explained
const READING = "Still reading. A long document takes a while, but only once.";
const CONTEXT = 70; // characters of the sentences around a result

/** What a panel marks in the document: sentences, sections by their scores, and words. */
export const nothing = () => ({ kinds: new Map(), matches: new Map(), scores: null, words: null });

/** Runs requests for a panel; the answer to one is dropped when another has been started. */
export class Latest {
  constructor(panel) {
    this.panel = panel;
    this.running = null;
    this.note = element("p", { class: "note waiting-note", hidden: "" }, READING);
    const form = panel.querySelector("form");
    if (form) form.after(this.note);
    else panel.prepend(this.note);
    this.explain = debounce(() => {
      this.note.hidden = false;
      announce(READING);
    }, WAITING);
  }

  cancel() {
    this.explain.cancel();
    this.note.hidden = true;
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
    this.explain();
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
 *     span's, the part of it that is `best`, the words of that to underline as `matches`, a
 *     `heading`, the sentences `before` and `after`, a `place` to name instead of the span's, a
 *     `score`, and the `source` if it has to be named.
 * @param {Function} onGo Called when the result is chosen.
 */
export function resultItem({ span, title, text = span.text, ...rest }, onGo) {
  const words = element("span", { class: "words", dir: "auto" });
  if (rest.heading) words.append(element("span", { class: "heading" }, rest.heading));
  if (rest.before) words.append(element("span", { class: "context" }, lastWords(rest.before)), " ");
  if (span.speaker) words.append(element("span", { class: "speaker" }, span.speaker), " ");
  words.append(...emphasize(text, rest.best ?? text, rest.matches));
  if (rest.after) words.append(" ", element("span", { class: "context" }, firstWords(rest.after)));
  // The page comes first: a long path may be cut.
  const named = placeParts(rest.place ?? span);
  const place = element("span", { class: "place" }, named.reverse().join(" · "));
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

const score = (value) =>
  element("span", { class: "score", title: "Score" }, hidden("Score "), value.toFixed(2));

/** Set the best part of a text apart, and underline words of it. */
function emphasize(text, best, matches) {
  const words = underlined(best, matches);
  if (best === text) return words;
  const at = text.indexOf(best);
  if (at < 0) return [text];
  return [text.slice(0, at), element("strong", {}, ...words), text.slice(at + best.length)];
}

function firstWords(text) {
  if (text.length <= CONTEXT) return text;
  return `${text.slice(0, CONTEXT).replace(/\s+\S*$/, "")} …`;
}

function lastWords(text) {
  if (text.length <= CONTEXT) return text;
  return `… ${text.slice(-CONTEXT).replace(/^\S*\s+/, "")}`;
}
