// The page: what is open, where the reader is, and how its parts hear of each other.
//
// The address holds both (#document=…&sentence=…), so the browser's back and forward buttons lead
// through the places that were visited.
//
// `data-view` of the body is "home" or "reader"; the style sheet decides what each of them shows.

import * as api from "./api.js";
import { Answers } from "./answers.js";
import { citation, placeName, spanOf } from "./citation.js";
import {
  announce,
  byId,
  clearError,
  count,
  debounce,
  moveInList,
  sentenceUnder,
  showError,
} from "./dom.js";
import { highlight } from "./highlights.js";
import { Home } from "./home.js";
import { Marks } from "./marks.js";
import { Outline } from "./outline.js";
import { PageView } from "./page-view.js";
import { Reading } from "./reading.js";
import { copy } from "./results.js";
import { TextView } from "./text-view.js";

const MAX_AUTHORS = 3; // that are named
const RESTING = 400; // milliseconds in a place until the address names it
const NARROW = 600; // pixels below which a document opens as text
const ZOOMS = { smaller: 1 / 1.25, larger: 1.25, fit: null };

class App {
  constructor() {
    this.reading = null;
    this.view = null;
    this.marks = new Marks();
    this.home = new Home(
      (id) => this.visit(id),
      () => this.#visitHome(),
    );
    this.answers = new Answers(
      (sentence, id) => this.visit(id ?? this.reading.id, sentence),
      (marked) => this.#mark(marked),
      (noted) => {
        this.marks.noted = noted;
        if (this.view) this.#select(this.marks.current);
      },
    );
    this.rest = debounce(() => this.#remember(), RESTING);
    this.#listen();
    api.health().then(({ llm, explain }) => {
      byId("ask-write").hidden = !llm;
      this.answers.explain = explain;
    }, showError);
    this.#arrive();
  }

  /** Go to a document or a place in it, so that one can go back. */
  visit(id, sentence = null) {
    const place = new URLSearchParams({ document: id });
    if (sentence !== null) place.set("sentence", sentence);
    this.#remember();
    history.pushState({ step: this.#step() + 1 }, "", `#${place}`);
    return this.#arrive();
  }

  #visitHome() {
    this.#remember();
    history.pushState({ step: this.#step() + 1 }, "", location.pathname + location.search);
    return this.#arrive();
  }

  /** Go to a page of the open document, so that one can go back. */
  async #visitPage(number) {
    this.#remember();
    history.pushState({ step: this.#step() + 1 }, "", location.hash);
    byId("back").disabled = false;
    this.#select(null);
    byId("text").focus({ preventScroll: true });
    await this.view.showPage(number);
    announce(`Page ${number}.`);
  }

  /** Note in the history where the reader is, to come back there or to share the address. */
  #remember() {
    if (!this.view || this.isArriving) return;
    const current = this.#currentPlace();
    const first = current ?? this.view.first();
    if (!first) return;
    const place = new URLSearchParams({ document: this.reading.id, sentence: first.sentence });
    const state = { step: this.#step(), offset: first.offset, isChosen: current !== null };
    history.replaceState(state, "", `#${place}`);
  }

  #step() {
    return history.state?.step ?? 0;
  }

  /** Show what the address says. */
  async #arrive() {
    this.rest.cancel(); // the place that was left is not this one
    const arriving = {};
    this.isArriving = arriving;
    try {
      await this.#showPlace();
    } finally {
      if (this.isArriving === arriving) this.isArriving = null;
    }
  }

  async #showPlace() {
    const place = new URLSearchParams(location.hash.slice(1));
    const id = place.get("document");
    byId("back").disabled = this.#step() === 0;
    if (!id) {
      const isBack = this.reading !== null;
      this.opening = null; // what is still being fetched is not wanted anymore
      await this.#goHome();
      if (isBack) byId("home-title").focus();
      return;
    }
    if (!this.home.shown) this.home.list(); // to know if there is a library
    try {
      if (this.reading?.id !== id && !(await this.#open(id))) return;
      const sentence = place.get("sentence");
      if (sentence === null) return;
      this.#panel("text");
      const { offset = null, isChosen = true } = history.state ?? {};
      await this.#goTo(Number(sentence), offset, isChosen);
    } catch (error) {
      showError(error);
      if (this.reading?.id !== id) await this.#goHome();
    }
  }

  get isHome() {
    return document.body.dataset.view === "home";
  }

  /** Whether there is a library, as far as is known yet. */
  get hasLibrary() {
    return "library" in document.body.dataset;
  }

  async #goHome() {
    document.body.dataset.view = "home";
    document.title = "foveate";
    this.view?.close();
    this.reading = this.view = null;
    const listing = this.home.list();
    if (!this.hasLibrary) await listing;
    if (this.isHome && this.hasLibrary) this.answers.open(null);
  }

  /** Open a document; tell whether it is still the wanted one when it has been fetched. */
  async #open(id) {
    byId("busy-text").textContent = "Opening…";
    byId("busy").hidden = false;
    this.opening = id;
    let reading;
    try {
      reading = await Reading.open(id);
    } finally {
      byId("busy").hidden = true;
    }
    if (this.opening !== id) return false;
    clearError();
    this.reading = reading;
    Object.assign(this.marks, new Marks());
    document.title = `${reading.title} – foveate`;
    byId("title").textContent = reading.title;
    const { authors = [], date, notes = [] } = reading.info;
    byId("remarks").textContent = notes.join(" ");
    byId("remarks").hidden = !notes.length;
    byId("facts").textContent = [
      authors.length > MAX_AUTHORS ? `${authors[0]} and others` : authors.join(", "),
      date,
      reading.pages.length ? count(reading.pages.length, "page") : null,
      count(reading.info.num_words, "word"),
      count(reading.numSentences, "sentence"),
    ]
      .filter(Boolean)
      .join(" · ");
    document.body.dataset.view = "reader";
    byId("views").hidden = !reading.pages.length;
    byId("page-form").hidden = !reading.pages.length;
    byId("page-count").textContent = `of ${reading.pages.length}`;
    this.outline = new Outline(byId("outline-list"), reading, (section) => {
      this.visit(id, reading.starts[section]);
    });
    this.#choose(reading.pages.length && innerWidth >= NARROW ? "pages" : "words");
    this.#select(null);
    this.answers.open(reading);
    byId("text").focus({ preventScroll: true });
    announce(`${reading.title} is open.`);
    return true;
  }

  /** Choose what narrow windows show: the outline, the text or the answers. */
  #panel(name) {
    byId("main").dataset.panel = name;
    for (const button of document.querySelectorAll("#panels button")) {
      button.setAttribute("aria-pressed", button.dataset.panel === name);
    }
  }

  /** Show the document as pages or as words. */
  #choose(name) {
    const isSame = this.view?.reading === this.reading;
    const place = isSame ? (this.#currentPlace() ?? this.view.first()) : null;
    this.view?.close();
    const View = name === "pages" ? PageView : TextView;
    this.view = new View(
      byId("text"),
      this.reading,
      this.marks,
      () => this.#followed(),
      () => this.#giveUpPages(),
    );
    for (const button of document.querySelectorAll("#views button")) {
      button.setAttribute("aria-pressed", button.dataset.view === name);
    }
    byId("zoom").hidden = name !== "pages";
    if (place) this.view.show(place.sentence).catch(showError);
    else byId("text").scrollTop = 0;
  }

  /** Show the words of a document whose pages cannot be drawn. */
  #giveUpPages() {
    if (byId("views").hidden) return;
    byId("views").hidden = true;
    this.#choose("words");
  }

  /** Go to a sentence or, with an offset, come back to where it was left, and choose it. */
  async #goTo(sentence, offset = null, isChosen = true) {
    const { reading } = this;
    const at = Math.min(Math.max(Math.trunc(sentence) || 0, 0), reading.numSentences - 1);
    const chosen = isChosen ? at : null;
    this.marks.current = chosen; // the next arrow key goes on from here
    await this.view.show(at, { focus: offset === null, offset });
    if (this.reading === reading) this.#select(chosen);
  }

  /** Return where the current sentence is; null if it is out of sight. */
  #currentPlace() {
    const found = byId("text").querySelector(".current")?.getBoundingClientRect();
    const visible = byId("text").getBoundingClientRect();
    if (!found || found.bottom < visible.top || found.top > visible.bottom) return null;
    return { sentence: this.marks.current, offset: found.top - visible.top };
  }

  #followed() {
    if (!this.view) return;
    const place = this.#currentPlace();
    this.outline.follow(place ? this.reading.sectionOf(place.sentence) : this.view.section());
    const number = byId("page-number");
    if (this.reading.pages.length && document.activeElement !== number) {
      const page = place ? this.reading.sentence(place.sentence)?.page : this.view.page();
      number.value = page ?? number.value;
    }
  }

  #mark({ kinds, matches, scores, words }) {
    this.marks.kinds = kinds;
    this.marks.matches = matches;
    this.view?.repaint();
    this.outline?.shade(scores);
    highlight(words);
  }

  /** Make a sentence the current one, whose place can be copied. */
  #select(sentence) {
    this.marks.current = sentence;
    this.view.repaint();
    this.#followed();
    const chosen = sentence === null ? null : this.reading.sentence(sentence);
    byId("chosen").hidden = !chosen;
    if (!chosen) return;
    byId("chosen-place").textContent = placeName(spanOf(this.reading, chosen));
    byId("chosen-highlight").setAttribute("aria-pressed", this.marks.noted.has(sentence));
    this.rest();
  }

  #listen() {
    window.addEventListener("popstate", () => this.#arrive());
    byId("open").addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // to another tab or window
      event.preventDefault();
      this.#visitHome();
    });
    byId("back").addEventListener("click", () => history.back());
    byId("forward").addEventListener("click", () => history.forward());
    byId("dismiss").addEventListener("click", clearError);
    byId("skip").addEventListener("click", () => {
      this.#panel("text");
      byId("text").focus();
    });
    for (const button of document.querySelectorAll("#panels button")) {
      button.addEventListener("click", () => this.#panel(button.dataset.panel));
    }
    for (const button of document.querySelectorAll("#views button")) {
      button.addEventListener("click", () => this.#choose(button.dataset.view));
    }
    byId("page-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const number = Math.trunc(Number(byId("page-number").value)) || 1;
      const last = this.reading.pages.length;
      this.#visitPage(Math.min(Math.max(number, 1), last)).catch(showError);
    });
    for (const [id, step] of Object.entries(ZOOMS)) {
      byId(id).addEventListener("click", () => this.view.zoom(step));
    }
    byId("page-number").addEventListener("focus", () => byId("page-number").select());
    byId("page-number").addEventListener("blur", () => this.#followed());
    this.#listenToText(byId("text"));
    const { notes } = this.answers.panels;
    byId("chosen-highlight").addEventListener("click", () => {
      if (notes.has(this.marks.current)) notes.remove(this.marks.current);
      else notes.add(this.marks.current);
    });
    byId("chosen-note").addEventListener("click", () => {
      if (!notes.has(this.marks.current)) notes.add(this.marks.current);
      this.#panel("answers");
      this.answers.activate(byId("notes-tab"));
      notes.write(this.marks.current);
    });
    byId("chosen-copy").addEventListener("click", () => this.#copyChosen());
    byId("chosen-close").addEventListener("click", () => this.#select(null));
    byId("main").addEventListener("keydown", moveInList);
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.matches("input, textarea, select");
      const isPlain = !(event.ctrlKey || event.metaKey || event.altKey);
      if (event.key !== "/" || isTyping || !isPlain || (this.isHome && !this.hasLibrary)) return;
      event.preventDefault();
      this.#panel("answers");
      this.answers.focus("search");
    });
  }

  #listenToText(text) {
    const sentenceAt = (event) => {
      const found = sentenceUnder(event);
      return found ? Number(found.dataset.sentence) : null;
    };
    text.addEventListener("click", (event) => {
      const isSelecting = !getSelection().isCollapsed;
      if (sentenceAt(event) !== null && !isSelecting) this.#select(sentenceAt(event));
    });
    text.addEventListener("scroll", () => this.rest(), { passive: true });
    text.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") this.#select(null);
      if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const from = this.marks.current;
      this.#goTo(from === null ? (this.view.first()?.sentence ?? 0) : from + step).catch(showError);
    });
  }

  /** Copy what is selected with the mouse or, if nothing is, the current sentence. */
  #copyChosen() {
    const sentence = this.reading.sentence(this.marks.current);
    const selected = getSelection().toString().replace(/\s+/g, " ").trim();
    copy(citation(selected || sentence.text, this.reading.title, spanOf(this.reading, sentence)));
  }
}

/** Ask for the token in a dialog. */
function askForToken(wasRefused) {
  const dialog = byId("token-dialog");
  byId("token-note").hidden = !wasRefused;
  byId("token").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => resolve(dialog.returnValue === "use" ? byId("token").value.trim() : null),
      { once: true },
    );
  });
}

api.onTokenNeeded(askForToken);
new App();
