// The answers: a summary, search, questions, keywords and notes. In the first view, search and
// questions are about the library.

import * as api from "./api.js";
import { citation } from "./citation.js";
import { announce, byId, count, debounce, element } from "./dom.js";
import { wordsOf } from "./highlights.js";
import { NotesPanel } from "./notes.js";
import { QueryPanel, findWords } from "./query-panel.js";
import { Latest, copy, nothing, resultItem } from "./results.js";
import { Writing } from "./writing.js";

const TYPING = 250; // milliseconds without a key after which a request is sent
const TOP_HITS = 12;
const TOP_PASSAGES = 5;
const TOP_KEYWORDS = 30;
const TOP_PLACES = 30; // of a keyword
const MAX_SUMMARY = 40; // sentences
const DEFAULT_SUMMARY = 5;
const AUTOMATIC_WORDS = 60_000; // documents up to this length are summarized when they are opened

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
    this.isFresh = reading.info.num_words > AUTOMATIC_WORDS;
    byId("summary-run").hidden = !this.isFresh;
    if (this.answers.active === this) this.activate();
  }

  /** Summarize the document when the panel is shown for the first time. */
  activate() {
    if (this.isFresh) return;
    this.isFresh = true;
    this.run();
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
        this.marked.words = wordsOf(query);
        for (const { sentence_idx: at } of sentences) this.marked.kinds.set(at, "summary");
        this.answers.update(this);
        announce(`Summary of ${count(sentences.length, "sentence")}.`);
      },
    );
  }
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
    if (this.isFresh) return;
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
   * @param {Function} onMarks Called with what the panel that is shown marks.
   * @param {Function} onNotes Called with the set of sentences that have a note.
   */
  constructor(onGo, onMarks, onNotes) {
    this.onGo = onGo;
    this.onMarks = onMarks;
    this.explain = false; // whether the service can say which words match
    const search = (query, reading, signal) => {
      const by = byId("search-by").value;
      if (by === "words") return findWords(query, reading);
      const request = { query, by, top_k: TOP_HITS, document: reading?.id };
      return api.search({ ...request, explain: this.explain }, signal);
    };
    const ask = async (query, reading, signal) => {
      const request = { query, document: reading?.id, top_k: TOP_PASSAGES, context: 0 };
      const asked = api.ask({ ...request, explain: this.explain }, signal);
      const { passages, section_scores } = await asked;
      return { hits: passages, section_scores };
    };
    this.panels = {
      summary: new SummaryPanel(this),
      search: new QueryPanel(this, "search", search, "result"),
      ask: new QueryPanel(this, "ask", ask, "passage"),
      keywords: new KeywordsPanel(this),
      notes: new NotesPanel(this, onNotes),
    };
    this.panels.ask.writing = new Writing(this, this.panels.ask);
    byId("search-by").addEventListener("change", (event) => {
      const scope = byId("search-scope");
      scope.disabled = event.target.value === "words"; // which are only found in the document
      if (scope.disabled) scope.value = "document";
    });
    this.tabs = [...document.querySelectorAll("#answers [role=tab]")];
    for (const tab of this.tabs) {
      tab.addEventListener("click", () => this.activate(tab));
      tab.addEventListener("keydown", (event) => this.#move(event, tab));
    }
    this.active = this.panels.summary;
  }

  /** Show the answers about another document or, if it is null, about the library. */
  open(reading) {
    const { search, ask, ...others } = this.panels;
    const wasHome = byId("summary-tab").hidden;
    for (const name of Object.keys(others)) byId(`${name}-tab`).hidden = !reading;
    const words = byId("search-by").querySelector("[value=words]");
    words.disabled = !reading;
    if (!reading && words.selected) byId("search-by").value = "passage";
    for (const panel of [search, ask]) panel.open(reading);
    if (reading) {
      for (const panel of Object.values(others)) panel.open(reading);
      if (wasHome && !this.active.found) this.activate(byId("summary-tab"));
    } else if (this.active !== ask) {
      this.activate(byId("search-tab"));
    }
    this.update(this.active);
  }

  /** Show a panel with the focus in its first field. */
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
    if (panel === this.active) this.onMarks(panel.marked);
  }

  #move(event, tab) {
    const tabs = this.tabs.filter((other) => !other.hidden);
    const at = tabs.indexOf(tab);
    const next = { ArrowRight: tabs[at + 1] ?? tabs[0], ArrowLeft: tabs.at(at - 1) }[event.key];
    if (!next) return;
    event.preventDefault();
    this.activate(next);
    next.focus();
  }
}
