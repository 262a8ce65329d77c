// The open document: its outline, and its sentences as they are fetched.

import * as api from "./api.js";
import { titleOf } from "./citation.js";

const BLOCK = 500; // sentences in a request
const UNSPACED = new Set(["ja", "km", "lo", "my", "th", "zh"]); // no spaces between sentences

/** Return the index of the last of the ascending values that is at most `value`. */
export function lastAtMost(values, value, length = values.length) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export class Reading {
  /** Fetch what is needed to show a document. */
  static async open(id) {
    const [info, sections] = await Promise.all([api.describe(id), api.outline(id)]);
    const pages = info.num_pages ? await api.pages(id) : [];
    return new Reading(info, sections, pages);
  }

  constructor(info, sections, pages) {
    this.id = info.id;
    this.info = info;
    this.sections = sections;
    this.pages = pages;
    this.title = titleOf(info);
    this.space = UNSPACED.has(info.language) ? "" : " ";
    this.starts = sections.map((section) => section.start_sentence);
    this.fetched = []; // sentences by index; holes are not fetched yet
    this.onPage = new Map(); // page → indices of the fetched sentences with a box on it
    this.blocks = new Map(); // block → promise
  }

  get numSentences() {
    return this.info.num_sentences;
  }

  sentence(index) {
    return this.fetched[index];
  }

  /** Fetch the sentences from `start` to before `end`. */
  async load(start, end) {
    const first = Math.floor(Math.max(start, 0) / BLOCK);
    const last = Math.floor((Math.min(end, this.numSentences) - 1) / BLOCK);
    const wanted = [];
    for (let block = first; block <= last; block++) wanted.push(this.#block(block));
    await Promise.all(wanted);
  }

  isLoaded(start, end) {
    for (let i = start; i < end; i++) if (!this.fetched[i]) return false;
    return true;
  }

  #block(block) {
    let promise = this.blocks.get(block);
    if (!promise) {
      promise = this.#fetch(block);
      this.blocks.set(block, promise);
      promise.catch(() => this.blocks.delete(block)); // so that it can be tried again
    }
    return promise;
  }

  async #fetch(block) {
    const start = block * BLOCK;
    const end = Math.min(start + BLOCK, this.numSentences);
    for (const sentence of await api.sentences(this.id, start, end)) {
      this.fetched[sentence.sentence_idx] = sentence;
      for (const page of new Set((sentence.boxes ?? []).map(([number]) => number))) {
        if (!this.onPage.has(page)) this.onPage.set(page, new Set());
        this.onPage.get(page).add(sentence.sentence_idx);
      }
    }
  }

  /** Return the index of the innermost section that holds a sentence. */
  sectionOf(sentence) {
    return Math.max(lastAtMost(this.starts, sentence), 0);
  }

  /** Return the index just past the sentences that are directly in a section. */
  ownEnd(section) {
    return section + 1 < this.sections.length ? this.starts[section + 1] : this.numSentences;
  }

  /** Return the name of a section; those without a title are numbered. */
  sectionTitle(section) {
    const { title } = this.sections[section];
    return title || (section === 0 && this.sections[1]?.title ? "Beginning" : `Part ${section + 1}`);
  }

  /** Return the indices from the outermost section around it to the section itself. */
  path(section) {
    const path = [];
    for (let at = section; at !== null && at !== undefined; at = this.sections[at].parent_idx) {
      path.unshift(at);
    }
    return path;
  }

  /**
   * Find words as they are written, but for letter case, spaces and the form of apostrophes.
   *
   * @returns {Promise<Object>} The index of each sentence that has them, and its `words`; and the
   *     `pattern` that they match.
   */
  async find(query) {
    const parts = query.split(/\s+/).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const pattern = new RegExp(parts.join("\\s+").replace(/['‘’]/g, "['‘’]"), "giu");
    await this.load(0, this.numSentences);
    const found = this.fetched.flatMap((sentence, at) => {
      const [words] = sentence.text.match(pattern) ?? [];
      return words ? [{ at, words }] : [];
    });
    return { found, pattern };
  }

  /** Fetch the sentences of a page, and return them in order. */
  async pageSentences(number) {
    const first = await this.firstFrom(number);
    const last = await this.firstFrom(number + 1);
    await this.load(Math.max(first - 1, 0), last);
    const indices = [...(this.onPage.get(number) ?? [])].sort((a, b) => a - b);
    return indices.map((index) => this.fetched[index]);
  }

  /** Find the first sentence that begins on a page or after it. */
  async firstFrom(page) {
    let low = 0;
    let high = this.numSentences;
    while (high - low > BLOCK) {
      const middle = (low + high) >> 1;
      await this.load(middle, middle + 1);
      if ((this.fetched[middle]?.page ?? 1) < page) low = middle + 1;
      else high = middle;
    }
    await this.load(low, high);
    while (low < high && (this.fetched[low]?.page ?? 1) < page) low++;
    return low;
  }
}
