// The panel of answers: a summary, search, questions and keywords of the open document.

import * as api from "./api.js";
import { citation, spanOf } from "./citation.js";
import { announce, byId, count, debounce, element } from "./dom.js";
import { Latest, copy, resultItem } from "./results.js";

const TYPING = 250; // milliseconds without a key after which a request is sent
const MIN_QUERY = 2; // characters
const TOP_HITS = 12;
const TOP_PASSAGES = 5;
const MAX_EXACT = 200; // sentences with the exact words that are listed
const TOP_KEYWORDS = 30;
const TOP_PLACES = 30; // of a keyword
const MAX_SUMMARY = 40; // sentences
const DEFAULT_SUMMARY = 5;
const AUTOMATIC_WORDS = 60_000; // documents up to this length are summarized when they are opened

/** What a panel marks in the document. */
const nothing = () => ({ kinds: new Map(), scores: null });

class SummaryPanel {
  constructor(answers) {
    this.answers = answers;
    this.marked = nothing();
    this.latest = new Latest(byId("summary"));
    this.length = byId("summary-length");
    this.query = byId("summary-query");
    const later = debounce(() => this.run(), TYPING);
    this.length.addEventListener("input", () => {
      this.#showLength();
      later();
    });
    this.query.addEventListener("input", later);
    byId("summary-form").addEventListener("submit", (event) => {
      event.preventDefault();
      later.cancel();
      this.run();
    });
    byId("summary-copy").addEventListener("click", () => copy(this.cited));
  }

  open(reading) {
    this.reading = reading;
    this.marked = nothing();
    this.latest.cancel();
    this.query.value = "";
    this.length.max = Math.min(MAX_SUMMARY, reading.numSentences);
    this.length.value = Math.min(DEFAULT_SUMMARY, reading.numSentences);
    this.#showLength();
    byId("summary-list").replaceChildren();
    byId("summary-text").replaceChildren();
    byId("summary-copy").hidden = true;
    const isShort = reading.info.num_words <= AUTOMATIC_WORDS;
    byId("summary-run").hidden = isShort;
    if (isShort) this.run();
  }

  #showLength() {
    const sentences = count(Number(this.length.value), "sentence");
    byId("summary-length-value").textContent = sentences;
    this.length.setAttribute("aria-valuetext", sentences);
  }

  run() {
    const { reading } = this;
    const request = { document: reading.id, sentences: Number(this.length.value) };
    const query = this.query.value.trim();
    if (query) request.query = query;
    return this.latest.run(
      (signal) => api.summarize(request, signal),
      ({ sentences, text }) => {
        const items = sentences.map(({ span, sentence_idx: at }) =>
          resultItem({ span, title: reading.title }, () => this.answers.onGo(at)),
        );
        byId("summary-list").replaceChildren(...items);
        // A model that writes gives a text of its own instead of sentences of the document.
        byId("summary-text").textContent = sentences.length ? "" : text;
        this.cited = sentences.length
          ? sentences.map(({ span }) => citation(span.text, reading.title, span)).join("\n")
          : citation(text, reading.title, {});
        byId("summary-copy").hidden = false;
        this.marked = nothing();
        for (const { sentence_idx: at } of sentences) this.marked.kinds.set(at, "summary");
        this.answers.update(this);
        announce(`Summary of ${count(sentences.length, "sentence")}.`);
      },
    );
  }
}

/** Search and questions: a query whose results come while one types. */
class QueryPanel {
  /**
   * @param {Function} request Takes a query, the document and an AbortSignal, and gives hits.
   * @param {string} what Names a hit.
   * @param {Function} isAboutAll Tells whether the query is about all documents of the library.
   */
  constructor(answers, name, request, what, isAboutAll) {
    this.answers = answers;
    this.name = name;
    this.request = request;
    this.what = what;
    this.isAboutAll = isAboutAll;
    this.marked = nothing();
    this.latest = new Latest(byId(name));
    this.query = byId(`${name}-query`);
    this.list = byId(`${name}-list`);
    this.note = byId(`${name}-note`);
    this.emptyNote = this.note.textContent;
    const later = debounce(() => this.run(), TYPING);
    byId(`${name}-form`).addEventListener("input", later);
    byId(`${name}-form`).addEventListener("submit", (event) => {
      event.preventDefault();
      later.cancel();
      this.run();
    });
  }

  open(reading) {
    this.reading = reading;
    this.marked = nothing();
    if (!this.isAboutAll()) this.query.value = "";
    this.run(); // a result in another document may have led here
  }

  #clear(note) {
    this.latest.cancel();
    this.list.replaceChildren();
    this.note.textContent = note;
    this.marked = nothing();
    this.answers.update(this);
  }

  run() {
    const query = this.query.value.trim();
    if (query.length < MIN_QUERY) {
      this.#clear(this.emptyNote);
      return undefined;
    }
    return this.latest.run(
      (signal) => this.request(query, this.reading, signal),
      (answer) => this.#show(answer),
    );
  }

  /** Choose the words that a hit shows: of a section, its title and best sentence. */
  #words({ span, best }) {
    if (span.text.includes(best.text)) return { best: best.text };
    return { heading: span.text, text: best.text };
  }

  #show({ hits, section_scores: scores, total = hits.length, isInOrder = false }) {
    const { reading } = this;
    const items = hits.map((hit) =>
      resultItem(
        {
          span: hit.span,
          title: hit.title || hit.name,
          ...this.#words(hit),
          before: hit.before,
          after: hit.after,
          score: hit.score,
          source: hit.document === reading.id ? null : hit.title || hit.name,
        },
        () => this.answers.onGo(hit.sentence_idx, hit.document),
      ),
    );
    this.list.replaceChildren(...items);
    const found = total ? count(total, this.what) : `No ${this.what} found`;
    const order = isInOrder ? "in the document’s order" : "best first";
    const shown = total > hits.length ? `; the first ${hits.length} are listed` : "";
    this.note.textContent = hits.length > 1 ? `${found}, ${order}${shown}.` : `${found}.`;
    announce(`${found}.`);
    this.marked = nothing();
    const here = hits.filter((hit) => hit.document === reading.id);
    for (const { first_sentence: first, num_sentences: size, sentence_idx: at } of here) {
      for (let i = 0; i < (size ?? 0); i++) this.marked.kinds.set(first + i, "passage");
      this.marked.kinds.set(at, size ? "best" : "passage");
    }
    if (here.length && !isInOrder) this.marked.kinds.set(here[0].sentence_idx, "best");
    this.marked.scores = scores ?? null;
    this.answers.update(this);
  }
}

/** Find the sentences that have the words of a query as they are written. */
async function findWords(query, reading) {
  const found = await reading.find(query);
  const hits = found.slice(0, MAX_EXACT).map(({ at, words }) => {
    const sentence = reading.sentence(at);
    const span = { ...spanOf(reading, sentence), ...sentence };
    const place = { document: reading.id, title: reading.title, sentence_idx: at };
    return { ...place, span, best: { text: words } };
  });
  return { hits, total: found.length, isInOrder: true };
}

class KeywordsPanel {
  constructor(answers) {
    this.answers = answers;
    this.marked = nothing();
    this.latest = new Latest(byId("keywords"));
    this.list = byId("keywords-list");
    this.places = byId("keywords-places");
  }

  open(reading) {
    this.reading = reading;
    this.latest.cancel();
    this.marked = nothing();
    this.isFresh = false;
    this.list.replaceChildren();
    this.places.replaceChildren();
    byId("keywords-note").textContent = "";
    if (this.answers.active === this) this.activate();
  }

  /** Find the keywords when the panel is shown for the first time. */
  activate() {
    if (this.isFresh || !this.reading) return;
    this.isFresh = true;
    const request = { document: this.reading.id, top_k: TOP_KEYWORDS, places: TOP_PLACES };
    this.latest.run(
      (signal) => api.keywords(request, signal),
      ({ keywords }) => {
        const best = Math.max(...keywords.map((keyword) => keyword.score), Number.EPSILON);
        this.list.replaceChildren(...keywords.map((keyword) => this.#item(keyword, best)));
        const found = `${count(keywords.length, "keyword")}, best first.`;
        byId("keywords-note").textContent = `${found} Choose one to see where it stands.`;
        announce(found);
      },
    );
  }

  #item(keyword, best) {
    const choose = () => this.#choose(chip, keyword);
    const chip = element(
      "button",
      { type: "button", class: "chip", "aria-pressed": false, click: choose },
      keyword.text,
      element("span", { class: "number" }, String(keyword.num_places)),
    );
    chip.style.setProperty("--match", `${Math.round((100 * keyword.score) / best)}%`);
    return element("li", {}, chip);
  }

  #choose(chip, { text, num_places: total, places }) {
    for (const other of this.list.querySelectorAll(".chip")) {
      other.setAttribute("aria-pressed", other === chip);
    }
    this.marked = nothing();
    for (const { sentence_idx: at } of places) this.marked.kinds.set(at, "keyword");
    this.answers.update(this);
    const shown = total > places.length ? `The first ${places.length} of ` : "";
    byId("keywords-note").textContent = `${shown}${count(total, "place")} of “${text}”`;
    announce(`${text}: ${count(total, "place")}.`);
    const { reading } = this;
    this.latest.run(
      () => Promise.all(places.map(({ sentence_idx: at }) => reading.load(at, at + 1))),
      () => {
        const items = places.map(({ span, sentence_idx: at }) => {
          const sentence = reading.sentence(at).text;
          const best = sentence.includes(span.text) ? span.text : undefined;
          return resultItem({ span, text: sentence, best, title: reading.title }, () =>
            this.answers.onGo(at),
          );
        });
        this.places.replaceChildren(...items);
      },
    );
  }
}

export class Answers {
  /**
   * @param {Function} onGo Called with a sentence and, if it may be another one, its document.
   * @param {Function} onMarks Called with the marks and section scores to show.
   */
  constructor(onGo, onMarks) {
    this.onGo = onGo;
    this.onMarks = onMarks;
    const search = (query, reading, signal) => {
      const by = byId("search-by").value;
      byId("search-scope").disabled = by === "words";
      if (by === "words") return findWords(query, reading);
      const request = { query, by, top_k: TOP_HITS };
      if (byId("search-scope").value === "document") request.document = reading.id;
      return api.search(request, signal);
    };
    const ask = async (query, reading, signal) => {
      const request = { query, document: reading.id, top_k: TOP_PASSAGES, context: 0 };
      const { passages, section_scores } = await api.ask(request, signal);
      return { hits: passages, section_scores };
    };
    const isAboutAll = () => byId("search-scope").value === "library";
    this.panels = {
      summary: new SummaryPanel(this),
      search: new QueryPanel(this, "search", search, "result", isAboutAll),
      ask: new QueryPanel(this, "ask", ask, "passage", () => false),
      keywords: new KeywordsPanel(this),
    };
    this.tabs = [...document.querySelectorAll("#answers [role=tab]")];
    for (const tab of this.tabs) {
      tab.addEventListener("click", () => this.activate(tab));
      tab.addEventListener("keydown", (event) => this.#move(event, tab));
    }
    this.active = this.panels.summary;
  }

  /** Show the answers about another document. */
  open(reading) {
    for (const panel of Object.values(this.panels)) panel.open(reading);
    this.update(this.active);
  }

  /** Show the tab of a name, with the focus in its first field. */
  focus(name) {
    this.activate(byId(`${name}-tab`));
    byId(`${name}-query`).select();
  }

  activate(tab) {
    for (const other of this.tabs) {
      const isActive = other === tab;
      other.setAttribute("aria-selected", isActive);
      other.tabIndex = isActive ? 0 : -1;
      byId(other.getAttribute("aria-controls")).hidden = !isActive;
    }
    this.active = this.panels[tab.getAttribute("aria-controls")];
    this.active.activate?.();
    this.update(this.active);
  }

  /** Pass on what a panel marks if it is the one that is shown. */
  update(panel) {
    if (panel === this.active) this.onMarks(panel.marked.kinds, panel.marked.scores);
  }

  #move(event, tab) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -this.tabs.length, End: this.tabs.length };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const at = this.tabs.indexOf(tab) + step;
    const last = this.tabs.length - 1;
    const next = Math.abs(step) > 1 ? Math.min(Math.max(at, 0), last) : (at + last + 1) % (last + 1);
    this.activate(this.tabs[next]);
    this.tabs[next].focus();
  }
}
