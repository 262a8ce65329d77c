// Notes and highlights of one's own, which the browser keeps for each document.

import { citation, spanOf } from "./citation.js";
import { announce, byId, count, element, hidden, showError } from "./dom.js";
import { nothing, resultItem } from "./results.js";

const KEY = "foveate.notes."; // before the name of the document's file

/** Return text as Markdown, every line after `prefix`. */
const markdown = (text, prefix = "") =>
  text.replace(/[\\`*_[\]<>#]/g, "\\$&").replace(/^/gm, prefix);

export class NotesPanel {
  /** @param {Function} onChange Called with the set of sentences that have a note. */
  constructor(answers, onChange) {
    this.answers = answers;
    this.onChange = onChange;
    this.marked = nothing();
    this.notes = [];
    byId("notes-save").addEventListener("click", () => this.#export());
  }

  /** Show the notes on a document. */
  async open(reading) {
    this.reading = reading;
    this.notes = [];
    try {
      this.notes = JSON.parse(localStorage.getItem(KEY + reading.info.name) ?? "[]");
      await this.#locate(this.notes, reading);
    } catch (error) {
      showError(error);
    }
    if (this.reading === reading) this.#list();
  }

  /** Find sentences whose place has changed with the document; those that are gone have none. */
  async #locate(notes, reading) {
    const places = notes.map(({ sentence }) => sentence ?? 0);
    await Promise.all(places.map((at) => reading.load(at, at + 1)));
    for (const note of notes) {
      if (reading.sentence(note.sentence)?.text === note.text) continue;
      await reading.load(0, reading.numSentences);
      const at = reading.fetched.findIndex(({ text }) => text === note.text);
      note.sentence = at < 0 ? null : at;
    }
  }

  has(sentence) {
    return this.notes.some((note) => note.sentence === sentence);
  }

  /** Highlight a sentence. */
  add(index) {
    const sentence = this.reading.sentence(index);
    const span = { ...spanOf(this.reading, sentence), text: sentence.text };
    this.notes.push({ ...span, sentence: index, note: "" });
    this.#save();
    this.#list();
    announce("Highlighted.");
  }

  remove(index) {
    this.#discard(this.notes.find((note) => note.sentence === index));
  }

  /** Write the note on a highlighted sentence. */
  write(index) {
    const at = this.notes.findIndex((note) => note.sentence === index);
    byId("notes-list").children[at].querySelector("textarea").focus();
  }

  #discard(note) {
    this.notes = this.notes.filter((other) => other !== note);
    this.#save();
    this.#list();
    announce("Removed.");
  }

  #save() {
    const key = KEY + this.reading.info.name;
    try {
      if (this.notes.length) localStorage.setItem(key, JSON.stringify(this.notes));
      else localStorage.removeItem(key);
    } catch (error) {
      showError(error);
    }
  }

  #list() {
    this.notes.sort((a, b) => a.sentence - b.sentence);
    byId("notes-list").replaceChildren(...this.notes.map((note) => this.#item(note)));
    byId("notes-save").hidden = !this.notes.length;
    byId("notes-note").textContent = this.notes.length
      ? `${count(this.notes.length, "highlight")}, kept in this browser.`
      : "Choose a sentence to highlight it or to write a note. This browser keeps them.";
    this.onChange(new Set(this.notes.map((note) => note.sentence)));
  }

  #item(note) {
    const item = resultItem({ span: note, title: this.reading.title }, () => {
      if (note.sentence === null) showError(new Error("The document no longer has this sentence."));
      else this.answers.onGo(note.sentence);
    });
    const write = (event) => {
      note.note = event.target.value;
      this.#save();
    };
    const field = element("textarea", { rows: 2, "aria-label": "Note", input: write }, note.note);
    const attributes = { type: "button", class: "quiet copy", click: () => this.#discard(note) };
    const remove = element("button", attributes, "Remove", hidden(" highlight"));
    item.querySelector(".foot").prepend(remove);
    item.append(field);
    return item;
  }

  #export() {
    const { title, info } = this.reading;
    const parts = this.notes.map((note) => {
      const quote = markdown(citation(note.text, title, note), "> ");
      return note.note ? `${quote}\n\n${note.note}` : quote;
    });
    const text = [`# Notes on ${markdown(title)}`, info.name, ...parts].join("\n\n");
    const href = `data:text/markdown;charset=utf-8,${encodeURIComponent(`${text}\n`)}`;
    element("a", { href, download: `${title} – notes.md` }).click();
  }
}
