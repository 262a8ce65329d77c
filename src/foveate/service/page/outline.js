// The outline: sections with bars for their lengths, shaded by how well they match.

import { count, element, hidden } from "./dom.js";

const MAX_ROWS = 400; // that are unfolded at first

export class Outline {
  /**
   * @param {HTMLElement} root What the list is put into.
   * @param {Reading} reading The document.
   * @param {Function} onGo Called with the index of a section that was chosen.
   */
  constructor(root, reading, onGo) {
    this.root = root;
    this.reading = reading;
    this.onGo = onGo;
    this.rows = new Map(); // section → its element
    this.scores = null;
    this.current = null;
    this.children = reading.sections.map(() => []);
    const outermost = [];
    reading.sections.forEach(({ parent_idx: parent }, section) => {
      (parent === null ? outermost : this.children[parent]).push(section);
    });
    this.longest = Math.max(...outermost.map((at) => reading.sections[at].num_words), 1);
    root.replaceChildren(this.#list(outermost, this.#depth()));
  }

  /** Shade sections by their scores, a list with one for each; null takes the shades away. */
  shade(scores) {
    this.scores = scores;
    if (scores) {
      // The lower half is not shaded: all sections of a document have something in common.
      const sorted = Float64Array.from(scores).sort();
      this.lowest = sorted[sorted.length >> 1];
      this.range = sorted.at(-1) - this.lowest || 1;
    }
    this.#paint();
  }

  /** Mark the section that is being read, or the unfolded one around it. */
  follow(section) {
    const path = section === null ? [] : this.reading.path(section);
    const shown = path.reverse().find((at) => this.rows.has(at) && this.#isVisible(at)) ?? null;
    if (shown === this.current) return;
    if (this.current !== null) this.#button(this.current)?.removeAttribute("aria-current");
    this.current = shown;
    if (shown === null) return;
    const button = this.#button(shown);
    button.setAttribute("aria-current", "location");
    if (!this.root.matches(":hover, :focus-within")) button.scrollIntoView({ block: "nearest" });
  }

  /** Return the deepest level at which not too many sections are unfolded. */
  #depth() {
    const sizes = [];
    for (const { level } of this.reading.sections) sizes[level] = (sizes[level] ?? 0) + 1;
    let depth = 1;
    let total = sizes[1] ?? 0;
    while (depth + 1 < sizes.length && total + (sizes[depth + 1] ?? 0) <= MAX_ROWS) {
      total += sizes[++depth] ?? 0;
    }
    return depth;
  }

  #list(sections, depth) {
    return element("ul", {}, ...sections.map((section) => this.#row(section, depth)));
  }

  #row(section, depth) {
    const { title, level, num_words: words, page } = this.reading.sections[section];
    const name = this.reading.sectionTitle(section);
    const bar = element("span", { class: "bar" });
    bar.style.width = `${Math.max((100 * words) / this.longest, 2)}%`;
    const go = element(
      "button",
      { type: "button", class: "go", title: name, click: () => this.onGo(section) },
      element("span", { class: title ? "name" : "name untitled" }, name),
      hidden(`, ${count(words, "word")}${page ? `, page ${page}` : ""}`),
      element("span", { class: "length", "aria-hidden": "true" }, bar),
      element("span", { class: "match visually-hidden" }),
    );
    const row = element("li", { "data-section": section });
    const line = element("div", { class: "row" }, go);
    line.style.setProperty("--depth", Math.min(level - 1, 6));
    row.append(line);
    this.rows.set(section, row);
    if (this.children[section].length) {
      const isOpen = level < depth;
      const twist = element("button", {
        type: "button",
        class: "twist",
        "aria-expanded": isOpen,
        "aria-label": `Sections in ${name}`,
        click: () => this.#fold(section, depth),
      });
      line.prepend(twist);
      if (isOpen) row.append(this.#list(this.children[section], depth));
    }
    this.#paintRow(section);
    return row;
  }

  #fold(section, depth) {
    const row = this.rows.get(section);
    const twist = row.querySelector(".twist");
    const isOpen = twist.getAttribute("aria-expanded") !== "true";
    twist.setAttribute("aria-expanded", isOpen);
    const list = row.querySelector(":scope > ul");
    if (list) list.hidden = !isOpen;
    else row.append(this.#list(this.children[section], depth));
    this.#paintRow(section);
  }

  #isVisible(section) {
    return this.rows.get(section).closest("ul[hidden]") === null;
  }

  #button(section) {
    return this.rows.get(section)?.querySelector(":scope > .row > .go");
  }

  #paint() {
    for (const section of this.rows.keys()) this.#paintRow(section);
  }

  #paintRow(section) {
    const row = this.rows.get(section);
    const line = row.firstElementChild;
    const isFolded = line.querySelector(".twist[aria-expanded=false]") !== null;
    const score = this.scores ? this.#score(section, isFolded) : null;
    const share = score === null ? 0 : Math.max((score - this.lowest) / this.range, 0);
    line.style.setProperty("--match", `${Math.round(100 * share)}%`);
    const told = score === null ? "" : `, match ${Math.round(100 * share)} of 100`;
    line.querySelector(".match").textContent = told;
  }

  /** Return the score of a section; if it is folded, the highest one in it. */
  #score(section, isFolded) {
    const own = this.scores[section] ?? this.lowest;
    if (!isFolded) return own;
    return Math.max(own, ...this.children[section].map((child) => this.#score(child, true)));
  }
}
