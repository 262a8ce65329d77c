// Which sentences are marked, and how.

export class Marks {
  constructor() {
    this.kinds = new Map(); // sentence → "summary", "passage", "best" or "keyword"
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
  }

  /** Paint all sentences that are built. */
  paintAll(root) {
    for (const element of root.querySelectorAll("[data-sentence]")) {
      this.paint(element, Number(element.dataset.sentence));
    }
  }
}
