// A document as the pictures of its pages, with boxes over the sentences and words to select.

import * as api from "./api.js";
import { announce, element, persist, sentenceUnder, showError, spoken } from "./dom.js";
import { textLayer } from "./text-layer.js";
import { VirtualList } from "./virtual-list.js";

const MAX_WIDTH = 860; // of a page, in pixels, unless the reader chooses another
const MIN_WIDTH = 240;
const MARGIN = 24; // around a page
const PIXELS_PER_POINT = 96 / 72; // at 100 percent
const MIN_ZOOM = PIXELS_PER_POINT / 4;
const MAX_ZOOM = PIXELS_PER_POINT * 4;
const SETTLING = 50; // milliseconds until what came into sight is fetched
const MISSING = 404; // the status when the file is not there anymore
const MAX_SCALE = 4; // pixels of the picture for each point

let zoom = null; // pixels per point, "width" to fit it, or null to fit it up to the largest width

const settled = () => new Promise((resolve) => setTimeout(resolve, SETTLING));

export class PageView {
  /**
   * See `TextView`, which has the same methods.
   *
   * @param {Function} onMissing Called when there is no file to draw the pages from.
   */
  constructor(scroller, reading, marks, onLayout, onMissing) {
    this.onMissing = onMissing;
    this.scroller = scroller;
    this.reading = reading;
    this.marks = marks;
    this.canvas = element("div", { class: "canvas pages", lang: reading.info.language });
    this.loading = new Map(); // page → what stops it
    this.hovered = null; // the box under the pointer
    this.canvas.addEventListener("pointerover", (event) => this.#hover(sentenceUnder(event)));
    this.canvas.addEventListener("pointerleave", () => this.#hover(null));
    scroller.replaceChildren(this.canvas);
    this.#widen();
    this.list = new VirtualList(
      scroller,
      this.canvas,
      {
        count: reading.pages.length,
        estimate: (i) => this.#size(i).height + MARGIN,
        build: (i) => this.#build(i),
        dispose: (i, node) => this.#dispose(i, node),
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

  async show(sentence, { focus = false, offset = null } = {}) {
    await this.reading.load(sentence, sentence + 1);
    const item = () => Math.max(this.#page(sentence) - 1, 0);
    const locate = () => this.canvas.querySelector(`[data-sentence="${sentence}"]`);
    this.list.show(item, locate, offset);
    await this.reading.pageSentences(item() + 1);
    if (this.list.target) this.list.show(item, locate, offset);
    if (focus) locate()?.focus({ preventScroll: true });
  }

  first() {
    const top = this.scroller.getBoundingClientRect().top;
    for (const element of this.canvas.querySelectorAll("[data-sentence]")) {
      const box = element.getBoundingClientRect();
      if (box.bottom > top + 1) {
        return { sentence: Number(element.dataset.sentence), offset: box.top - top };
      }
    }
    return null;
  }

  section() {
    const middle = this.scroller.getBoundingClientRect().top + this.scroller.clientHeight / 3;
    let last = null;
    for (const box of this.canvas.querySelectorAll("[data-sentence]")) {
      if (last !== null && box.getBoundingClientRect().top > middle) break;
      last = Number(box.dataset.sentence);
    }
    return last === null ? null : this.reading.sectionOf(last);
  }

  page() {
    return this.reading.pages[this.list.middle()].number;
  }

  async showPage(number) {
    const i = number - this.reading.pages[0].number;
    this.list.show(() => i, () => this.list.nodes.get(i), 0);
  }

  #page(sentence) {
    const { boxes, page } = this.reading.sentence(sentence);
    return boxes?.[0]?.[0] ?? page ?? 1;
  }

  #size(i) {
    const { width, height } = this.reading.pages[i];
    const room = Math.max(this.scroller.clientWidth - 2 * MARGIN, MIN_WIDTH);
    const fitting = zoom === "width" ? room : Math.min(room, MAX_WIDTH);
    const shown = zoom > 0 ? zoom * width : fitting;
    return { width: shown, height: (shown * height) / width };
  }

  /** Show the pages larger by a factor or, if it is null, as wide as there is room. */
  zoom(factor) {
    const i = this.list.first();
    const { width } = this.reading.pages[i];
    const larger = (factor * this.#size(i).width) / width;
    zoom = factor ? Math.min(Math.max(larger, MIN_ZOOM), MAX_ZOOM) : "width";
    this.#widen();
    this.list.remeasure();
    this.scroller.scrollLeft = (this.scroller.scrollWidth - this.scroller.clientWidth) / 2;
    announce(`${Math.round((100 * this.#size(i).width) / width / PIXELS_PER_POINT)} percent`);
  }

  /** Make room for pages that are wider than the window. */
  #widen() {
    const widest = Math.max(...this.reading.pages.map(({ width }) => width));
    this.canvas.style.minWidth = zoom > 0 ? `${zoom * widest + 2 * MARGIN}px` : "";
  }

  #build(i) {
    const { number } = this.reading.pages[i];
    const { width, height } = this.#size(i);
    const image = element("img", { alt: "" }); // its words are in the boxes
    const sheet = element("div", { class: "sheet", "aria-busy": "true" }, image);
    sheet.style.width = `${width}px`;
    sheet.style.height = `${height}px`;
    const name = `Page ${number}`;
    const page = element("div", { class: "page", role: "group", "aria-label": name }, sheet);
    page.dataset.page = number;
    const loading = new AbortController();
    this.loading.set(i, loading);
    this.#picture(i, image, width, loading.signal)
      .then(() => this.#words(i, sheet, width, loading.signal))
      .catch((error) => {
        showError(error);
        if (error.status === MISSING) this.onMissing();
      })
      .finally(() => sheet.removeAttribute("aria-busy"));
    this.#sentences(i, sheet, loading.signal).catch(showError);
    return page;
  }

  async #sentences(i, sheet, signal) {
    await settled();
    if (signal.aborted) return; // it was only passed by
    const { number } = this.reading.pages[i];
    const load = () => this.reading.pageSentences(number);
    const sentences = await persist(load, () => !signal.aborted);
    if (signal.aborted) return;
    for (const sentence of sentences) this.#boxes(sheet, sentence, i);
    if (this.list.target) this.list.schedule();
    this.list.onLayout?.();
  }

  async #picture(i, image, width, signal) {
    await settled();
    if (signal.aborted) return;
    const { number, width: points } = this.reading.pages[i];
    const exact = (width * devicePixelRatio) / points;
    const scale = Math.min(Math.ceil(exact * 4) / 4, MAX_SCALE);
    const draw = () => api.pageImage(this.reading.id, number, scale, signal);
    const blob = await persist(draw, () => !signal.aborted);
    if (!signal.aborted) image.src = URL.createObjectURL(blob);
  }

  async #words(i, sheet, width, signal) {
    if (signal.aborted) return;
    const page = this.reading.pages[i];
    const load = () => api.pageText(this.reading.id, page.number, signal);
    const layer = await persist(load, () => !signal.aborted);
    if (!signal.aborted) sheet.append(textLayer(layer, page, width / page.width));
  }

  #hover(box) {
    this.hovered?.classList.remove("hovered");
    box?.classList.add("hovered");
    this.hovered = box;
  }

  /** Place a box for each line of a sentence; the first one holds its words, for screen readers. */
  #boxes(sheet, { sentence_idx: index, text, boxes }, i) {
    const { number, width, height } = this.reading.pages[i];
    boxes.forEach(([page, left, top, right, bottom], line) => {
      if (page !== number) return;
      const made = element("span", { class: "box sentence", "data-sentence": index, tabindex: -1 });
      if (line === 0) made.append(spoken(text));
      else made.setAttribute("aria-hidden", "true");
      made.style.left = `${(100 * left) / width}%`;
      made.style.top = `${(100 * top) / height}%`;
      made.style.width = `${(100 * (right - left)) / width}%`;
      made.style.height = `${(100 * (bottom - top)) / height}%`;
      this.marks.paint(made, index);
      sheet.append(made);
    });
  }

  #dispose(i, node) {
    this.loading.get(i)?.abort();
    this.loading.delete(i);
    const address = node.querySelector("img").src;
    if (address) URL.revokeObjectURL(address);
  }
}
