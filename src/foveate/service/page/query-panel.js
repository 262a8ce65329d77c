// Search and questions about the open document or the library: results come while one types.

import { spanOf, titleOf } from "./citation.js";
import { announce, byId, count, debounce, element } from "./dom.js";
import { wordsOf } from "./highlights.js";
import { Latest, nothing, resultItem } from "./results.js";

const TYPING = 250; // milliseconds without a key after which a request is sent
const MIN_QUERY = 2; // characters
const MAX_EXACT = 200; // sentences with the exact words that are listed

export class QueryPanel {
  /**
   * @param {Function} request Takes a query, the document (null for the library) and an
   *     AbortSignal, and returns hits.
   * @param {string} what Names a hit.
   */
  constructor(answers, name, request, what) {
    this.answers = answers;
    this.request = request;
    this.what = what;
    this.reading = null;
    this.marked = nothing();
    this.found = null; // what is listed
    this.running = null; // a promise of it
    this.writing = null; // what a language model answers
    this.latest = new Latest(byId(name));
    this.query = byId(`${name}-query`);
    this.scope = byId(`${name}-scope`);
    this.list = byId(`${name}-list`);
    this.note = byId(`${name}-note`);
    this.emptyNote = this.note.textContent;
    const later = debounce(() => this.run(), TYPING);
    const form = byId(`${name}-form`);
    form.addEventListener("input", () => {
      this.found = this.running = null;
      this.writing?.clear();
      later();
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      later.cancel();
      if (!this.found) await (this.running ?? this.run());
      this.list.querySelector(".go")?.focus();
    });
  }

  get isAboutLibrary() {
    return this.scope.value === "library";
  }

  /** Go on with an opened document or, if it is null, with the library. */
  open(reading) {
    this.reading = reading;
    this.writing?.clear();
    this.scope.disabled = !reading;
    if (!reading) {
      this.found = this.isAboutLibrary ? this.found : null;
      this.scope.value = "library";
    } else if (!this.query.value) {
      this.scope.value = "document";
    } else if (!this.isAboutLibrary) {
      this.query.value = "";
    }
    if (this.found && this.isAboutLibrary) this.#show(this.found);
    else this.run();
  }

  run() {
    const query = this.query.value.trim();
    if (query.length < MIN_QUERY) {
      this.#clear();
      return undefined;
    }
    const about = this.isAboutLibrary ? null : this.reading;
    this.running = this.latest
      .run(
        (signal) => this.request(query, about, signal),
        (found) => this.#show({ words: wordsOf(query), ...found }),
      )
      .finally(() => (this.running = null));
    return this.running;
  }

  #clear() {
    this.latest.cancel();
    this.found = null;
    this.list.replaceChildren();
    this.note.textContent = this.emptyNote;
    this.marked = nothing();
    this.answers.update(this);
  }

  #show(found) {
    const { hits, section_scores: scores, total = hits.length, isInOrder = false } = found;
    const { reading } = this;
    this.found = found;
    this.list.replaceChildren(...hits.map((hit) => this.#item(hit)));
    const told = [total ? count(total, this.what) : `No ${this.what} found`];
    if (hits.length > 1) told.push(isInOrder ? "in the document’s order" : "best first");
    const shown = total > hits.length ? `; the first ${hits.length} are listed` : "";
    const isUnlikely = hits.length > 0 && hits.every((hit) => hit.likely === false);
    const where = this.isAboutLibrary ? "library" : "document";
    const warning = isUnlikely ? `Probably not in this ${where}.` : "";
    this.note.replaceChildren(
      warning && element("strong", {}, warning),
      ` ${told.join(", ")}${shown}.`,
    );
    announce(`${warning} ${told[0]}.`);
    this.marked = { ...nothing(), scores: scores ?? null, words: found.words };
    const here = hits.filter((hit) => hit.document === reading?.id);
    for (const { first_sentence: first, num_sentences: size, sentence_idx: at, matches } of here) {
      for (let i = 0; i < (size ?? 0); i++) this.marked.kinds.set(first + i, "passage");
      this.marked.kinds.set(at, size ? "best" : "passage");
      this.marked.matches.set(at, matches);
    }
    if (here.length && !isInOrder) this.marked.kinds.set(here[0].sentence_idx, "best");
    this.answers.update(this);
  }

  #item(hit) {
    const { span, best } = hit;
    const title = titleOf(hit);
    // Of a section, its title and best sentence are shown.
    const isWhole = span.text.includes(best.text);
    const words = isWhole ? { best: best.text } : { heading: span.text, text: best.text };
    return resultItem(
      {
        ...words,
        span,
        title,
        place: best, // to which it leads
        matches: hit.matches,
        before: hit.before,
        after: hit.after,
        score: hit.score,
        source: hit.document === this.reading?.id ? null : title,
      },
      () => this.answers.onGo(hit.sentence_idx, hit.document),
    );
  }
}

/** Find the sentences that have the words of a query as they are written. */
export async function findWords(query, reading) {
  const { found, pattern } = await reading.find(query);
  const hits = found.slice(0, MAX_EXACT).map(({ at, words }) => {
    const sentence = reading.sentence(at);
    const span = { ...spanOf(reading, sentence), ...sentence };
    const place = { document: reading.id, title: reading.title, sentence_idx: at };
    return { ...place, span, best: { ...span, text: words } };
  });
  return { hits, total: found.length, words: pattern, isInOrder: true };
}
