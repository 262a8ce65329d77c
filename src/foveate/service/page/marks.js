// Which sentences are marked, and how.

import { underlined } from "./dom.js";

export class Marks {
  constructor() {
    this.kinds = new Map(); // sentence → "summary", "passage", "best" or "keyword"
    this.matches = new Map(); // sentence → its words that match those of a query
    this.noted = new Set();
    this.current = null;
  }

  /** Give the element of a sentence the classes of its marks. */
  paint(element, sentence) {
    const kind = this.kinds.get(sentence);
    if (kind) element.dataset.mark = kind;
    else delete element.dataset.mark;
    element.classList.toggle("noted", this.noted.has(sentence));
    element.classList.toggle("current", this.current === sentence);
    const matches = this.matches.get(sentence);
    const isText = !element.classList.contains("box"); // and no place on the picture of a page
    if (isText && element.underlined !== matches) {
      element.underlined = matches; // what stays is not built again, as it may be selected
      element.replaceChildren(...underlined(element.textContent, matches));
    }
  }

  /** Paint all sentences that are built. */
  paintAll(root) {
    for (const element of root.querySelectorAll("[data-sentence]")) {
      this.paint(element, Number(element.dataset.sentence));
    }
  }
}
