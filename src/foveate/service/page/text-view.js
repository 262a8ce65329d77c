// A document as text: headings and paragraphs, of which those near the visible part are built.

import { element, persist, showError } from "./dom.js";
import { lastAtMost } from "./reading.js";
import { VirtualList } from "./virtual-list.js";

const CHUNK = 24; // sentences that are built at once
const SETTLING = 50; // milliseconds until what came into sight is fetched
const OWN_LINES = new Set(["code", "reference", "table"]); // each sentence on a line of its own
const NUMBERED = /^\(?(\d+|[a-z]|[ivx]+)[.)]\s/i; // an item that brings its own mark
const CHARACTERS_PER_WORD = 6;
const HEADING = 4.5; // lines that a heading takes with the space around it

/** Cut a document into chunks that begin anew with every section. */
function cut(reading) {
  const chunks = [];
  reading.sections.forEach((_, section) => {
    const start = reading.starts[section];
    const end = reading.ownEnd(section);
    for (let at = start; at < end || at === start; at += CHUNK) {
      chunks.push({ section, start: at, end: Math.min(at + CHUNK, end), opens: at === start });
    }
  });
  return chunks;
}

export class TextView {
  /**
   * @param {HTMLElement} scroller What scrolls.
   * @param {Reading} reading The document.
   * @param {Marks} marks Marks of its sentences.
   * @param {Function} onLayout Called after scrolling.
   */
  constructor(scroller, reading, marks, onLayout) {
    this.scroller = scroller;
    this.reading = reading;
    this.marks = marks;
    this.chunks = cut(reading);
    this.starts = this.chunks.map((chunk) => chunk.start);
    const language = reading.info.language;
    this.canvas = element("div", { class: "canvas text", lang: language });
    scroller.replaceChildren(this.canvas);
    const style = getComputedStyle(this.canvas);
    this.fontSize = parseFloat(style.fontSize);
    this.lineHeight = parseFloat(style.lineHeight);
    this.list = new VirtualList(
      scroller,
      this.canvas,
      {
        count: this.chunks.length,
        estimate: (i) => this.#estimate(i),
        build: (i, height) => this.#build(i, height),
      },
      onLayout,
    );
  }

  close() {
    this.list.close();
  }

  repaint() {
    this.marks.paintAll(this.canvas);
  }

  /**
   * Scroll to a sentence, once it is fetched.
   *
   * @param {Object} options Whether it gets the `focus`, and at which `offset` from the upper edge
   *     it shall be, in pixels; by default in the upper third.
   */
  async show(sentence, { focus = false, offset = null } = {}) {
    const item = () => this.#chunkOf(sentence);
    const locate = () => this.canvas.querySelector(`[data-sentence="${sentence}"]`);
    this.list.show(item, locate, offset);
    await this.reading.load(...this.#needed(item()));
    for (const [i, node] of [...this.list.nodes]) {
      const isWaiting = node.classList.contains("waiting");
      if (isWaiting && this.reading.isLoaded(...this.#needed(i))) this.list.rebuild(i);
    }
    if (this.list.target) this.list.show(item, locate, offset);
    if (focus) locate()?.focus({ preventScroll: true });
  }

  /** Return the first sentence that is visible, and its offset from the upper edge. */
  first() {
    const top = this.scroller.getBoundingClientRect().top;
    const first = this.list.first();
    for (const chunk of [first, first + 1]) {
      const built = this.list.nodes.get(chunk)?.querySelectorAll("[data-sentence]") ?? [];
      for (const element of built) {
        const box = element.getBoundingClientRect();
        if (box.bottom > top + 1) {
          return { sentence: Number(element.dataset.sentence), offset: box.top - top };
        }
      }
    }
    return { sentence: this.chunks[first].start, offset: 0 };
  }

  /** Return the index of the section at a third of the visible part. */
  section() {
    return this.chunks[this.list.middle()].section;
  }

  /** Return the number of the page at the upper edge; null if it is not known. */
  page() {
    return this.reading.sentence(this.first().sentence)?.page ?? null;
  }

  /** Scroll to the beginning of a page. */
  async showPage(number) {
    const sentence = await this.reading.firstFrom(number);
    await this.show(Math.min(sentence, this.reading.numSentences - 1), { offset: 0 });
  }

  #estimate(i) {
    const { section, start, end, opens } = this.chunks[i];
    const { num_sentences: sentences, num_words: words } = this.reading.sections[section];
    const characters = ((end - start) * words * CHARACTERS_PER_WORD) / Math.max(sentences, 1);
    const width = Math.max(this.canvas.clientWidth, 200) / (this.fontSize * 0.5);
    const heading = opens && this.reading.sections[section].title ? HEADING : 1;
    return Math.round((characters / width + heading) * this.lineHeight);
  }

  /** Tell whether a chunk and one before or after it are of the same section. */
  #areTogether(i, other) {
    return this.chunks[i].section === this.chunks[other]?.section;
  }

  /** Return the bounds of the sentences that must be fetched to build a chunk. */
  #needed(i) {
    const first = this.#areTogether(i, i - 1) ? i - 1 : i;
    const last = [i + 2, i + 1, i].find((other) => this.#areTogether(i, other));
    return [Math.max(this.chunks[first].start - 1, 0), this.chunks[last].end];
  }

  /** Return the first sentence of a chunk that begins a paragraph or a line; null if none does. */
  #firstBreak(i) {
    const { start, end, opens } = this.chunks[i];
    if (opens) return start;
    for (let at = start; at < end; at++) {
      const before = this.reading.sentence(at - 1);
      const here = this.reading.sentence(at);
      if (before.paragraph_idx !== here.paragraph_idx || OWN_LINES.has(here.kind)) return at;
    }
    return null;
  }

  /**
   * Return the first sentence that is shown in a chunk; null if it is empty, because all of it
   * belongs to a paragraph of the chunk before. Longer paragraphs are broken.
   */
  #begin(i) {
    const found = this.#firstBreak(i);
    return found ?? (this.#firstBreak(i - 1) === null ? this.chunks[i].start : null);
  }

  /** Return the index just past the last sentence that is shown in a chunk. */
  #stop(i) {
    for (const next of [i + 1, i + 2]) {
      if (!this.#areTogether(i, next)) break;
      const begin = this.#begin(next);
      if (begin !== null) return begin;
    }
    return this.reading.ownEnd(this.chunks[i].section);
  }

  #chunkOf(sentence) {
    let i = Math.max(lastAtMost(this.starts, sentence), 0);
    if (!this.reading.isLoaded(...this.#needed(i))) return i;
    while (!this.chunks[i].opens) {
      const begin = this.#begin(i);
      if (begin !== null && begin <= sentence) break;
      i--;
    }
    return i;
  }

  #build(i, height) {
    const [from, to] = this.#needed(i);
    if (!this.reading.isLoaded(from, to)) {
      const waiting = element("div", { class: "chunk waiting", "aria-hidden": "true" });
      waiting.style.height = `${height}px`;
      setTimeout(() => {
        if (!waiting.isConnected) return; // it was only passed by
        // By then, `show` may have built it, and a sentence in it have the focus.
        const replace = () => waiting.isConnected && this.list.rebuild(i);
        const load = () => this.reading.load(from, to);
        persist(load, () => waiting.isConnected).then(replace, showError);
      }, SETTLING);
      return waiting;
    }
    const { section, opens } = this.chunks[i];
    const node = element("div", { class: "chunk" });
    node.classList.toggle("first", i === 0);
    node.classList.toggle("last", i === this.chunks.length - 1);
    if (opens) node.append(...this.#heading(section));
    const begin = this.#begin(i);
    const stop = begin === null ? 0 : this.#stop(i);
    let paragraph = null;
    let before = null;
    for (let at = begin; at < stop; at++) {
      const sentence = this.reading.sentence(at);
      if (!before || before.paragraph_idx !== sentence.paragraph_idx) {
        paragraph = this.#paragraph(sentence, before);
        node.append(paragraph);
      } else if (!OWN_LINES.has(sentence.kind)) {
        paragraph.append(this.reading.space);
      }
      paragraph.append(this.#sentence(sentence));
      before = sentence;
    }
    return node;
  }

  #heading(section) {
    const { title, level } = this.reading.sections[section];
    if (!title) return [];
    return [element(`h${Math.min(level + 1, 6)}`, { dir: "auto" }, title)];
  }

  #paragraph(sentence, before) {
    const isLines = sentence.kind === "code" || sentence.kind === "table";
    const attributes = { class: `paragraph ${sentence.kind}`, dir: "auto" };
    const made = element(isLines ? "div" : "p", attributes);
    if (sentence.kind === "item" && NUMBERED.test(sentence.text)) made.classList.add("numbered");
    if (sentence.speaker && sentence.speaker !== before?.speaker) {
      made.append(element("span", { class: "speaker" }, sentence.speaker), " ");
    }
    return made;
  }

  #sentence({ sentence_idx: index, text }) {
    const made = element("span", { class: "sentence", "data-sentence": index, tabindex: -1 }, text);
    this.marks.paint(made, index);
    return made;
  }
}
