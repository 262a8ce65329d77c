// What a language model writes: it comes in pieces, and its citations lead to their places.

import * as api from "./api.js";
import { placeName } from "./citation.js";
import { announce, byId, count, element, hidden } from "./dom.js";
import { Latest, nothing } from "./results.js";

const CELLS = 120; // of the map of a document
const WEAK = "weakly supported";
const CITED = /([[【]\s*\d+(?:\s*[-–,;]\s*\d+)*\s*[\]】])/; // as the service reads them

export class Writing {
  /** @param {QueryPanel} panel The questions, which a language model may answer. */
  constructor(answers, panel) {
    this.answers = answers;
    this.panel = panel;
    this.root = byId("ask-written");
    this.latest = new Latest(this.root);
    byId("ask-write").addEventListener("click", () => this.run());
  }

  clear() {
    this.latest.cancel();
    this.root.hidden = true;
  }

  async run() {
    const query = this.panel.query.value.trim();
    if (!query) {
      this.panel.query.focus();
      return;
    }
    const reading = this.panel.isAboutLibrary ? null : this.panel.reading;
    const text = element("p", { class: "written" });
    this.root.replaceChildren(this.latest.note, text);
    this.root.hidden = false;
    const found = { shown: new Set(), cited: new Set() };
    const read = async (signal) => {
      for await (const line of api.write({ query, document: reading?.id }, signal)) {
        for (const at of line.shown ?? []) found.shown.add(at);
        if (line.text) {
          this.latest.explain.cancel();
          this.latest.note.hidden = true;
          text.append(line.text);
        }
        if (line.written) {
          text.replaceChildren(...this.#sentences(line, reading));
          for (const one of line.cited) found.cited.add(one.sentence_idx);
        }
      }
    };
    await this.latest.run(read, () => {
      announce(`The answer is written: ${text.textContent}`);
      if (reading) this.#map(reading, found);
    });
  }

  /** Return the sentences of an answer, with links to what they cite. */
  #sentences({ written, sentences, cited }, reading) {
    if (!sentences.length) return [written];
    const places = new Map(cited.map((one) => [one.number, one]));
    return sentences.map(({ text, is_supported: isSupported }) => {
      const parts = text.split(CITED).map((part, i) => {
        if (i % 2 === 0) return [part];
        return part.match(/\d+/g).map((number) => this.#link(places.get(Number(number)), number, reading));
      });
      const warning = isSupported ? null : element("span", { class: "warning" }, WEAK);
      return element("span", isSupported ? {} : { class: "weak" }, ...parts.flat(), warning);
    });
  }

  #link(place, number, reading) {
    if (!place) return element("span", { class: "cite missing" }, `${number}?`);
    const { span, document, sentence_idx: at } = place;
    const where = [reading ? "" : span.document, placeName(span)].filter(Boolean).join(", ");
    const click = () => this.answers.onGo(at, document);
    const title = `${where}: ${span.text}`;
    return element("button", { type: "button", class: "cite", title, click }, hidden("Source "), number);
  }

  /** Show what the model read of a document and what it cited: here, in the text, in the outline. */
  #map(reading, { shown, cited }) {
    const size = reading.numSentences;
    const share = (start, end) => {
      let number = 0;
      for (let i = start; i < end; i++) number += shown.has(i);
      return number / Math.max(end - start, 1);
    };
    const length = Math.min(CELLS, size);
    const bound = (cell) => Math.round((cell * size) / length);
    const cells = Array.from({ length }, (_, i) => {
      const cell = element("i");
      cell.style.setProperty("--match", `${Math.round(100 * share(bound(i), bound(i + 1)))}%`);
      return cell;
    });
    for (const at of cited) {
      cells[cells.findIndex((_, i) => at < bound(i + 1))].className = "cited";
    }
    const told = `${shown.size} of ${count(size, "sentence")} read, ${cited.size} cited.`;
    this.root.append(
      element(
        "figure",
        { class: "map" },
        element("div", { "aria-hidden": "true" }, ...cells),
        element("figcaption", { class: "note" }, told),
      ),
    );
    const marked = nothing();
    for (const at of shown) marked.kinds.set(at, "passage");
    for (const at of cited) marked.kinds.set(at, "best");
    marked.scores = reading.sections.map((_, i) => share(reading.starts[i], reading.ownEnd(i)));
    this.panel.marked = marked;
    this.answers.update(this.panel);
  }
}
