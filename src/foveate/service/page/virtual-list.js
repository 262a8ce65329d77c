// A long column of which only what is near the visible part is in the page.

import { lastAtMost } from "./reading.js";

const OVERSCAN = 1; // screens that are built above and below the visible one
const MAX_PASSES = 6;
const MARGIN = 24; // pixels left of what is out of sight at a side
const GLIDE = 1000; // milliseconds for which a browser may go on to scroll after a key

/**
 * Items of unequal heights, which are estimated until they are built and measured. When a height
 * turns out different, what the reader sees stays where it is.
 */
export class VirtualList {
  /**
   * @param {HTMLElement} scroller What scrolls.
   * @param {HTMLElement} canvas What the items are placed in, relative to its top.
   * @param {Object} items `count`, `estimate(i)` → pixels, `build(i)` → element, and `dispose(i,
   *     element)`, which is called when an element is taken out again.
   * @param {Function} onLayout Called after the items have been placed.
   */
  constructor(scroller, canvas, items, onLayout) {
    this.scroller = scroller;
    this.canvas = canvas;
    this.items = items;
    this.onLayout = onLayout;
    this.nodes = new Map();
    this.target = null;
    this.isHeldAtEnd = false;
    this.keyTime = -GLIDE; // of the last key
    this.frame = 0;
    this.top = scroller.scrollTop; // where the last layout left it
    this.width = scroller.clientWidth;
    this.offsets = new Float64Array(items.count + 1);
    this.#estimate();

    this.listening = new AbortController();
    const options = { passive: true, signal: this.listening.signal };
    scroller.addEventListener("scroll", () => this.#scrolled(), options);
    for (const input of ["wheel", "touchstart", "pointerdown"]) {
      scroller.addEventListener(input, () => this.#release(), options);
    }
    scroller.addEventListener("keydown", (event) => this.#keyDown(event), {
      signal: options.signal,
    });
    this.resizing = new ResizeObserver(() => this.#resized());
    this.resizing.observe(scroller);
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.listening.abort();
    this.resizing.disconnect();
    for (const i of [...this.nodes.keys()]) this.#remove(i);
  }

  /** Lay out before the next frame. */
  schedule() {
    this.frame ||= requestAnimationFrame(() => this.layout());
  }

  /**
   * Scroll until an element is in sight, and keep it there until the reader scrolls.
   *
   * @param {Function} item Gives the index of the item that holds the element.
   * @param {Function} locate Gives the element, or null as long as it is not built.
   * @param {number|null} offset Pixels from the upper edge to it; a third of the height if null.
   */
  show(item, locate, offset = null) {
    this.isHeldAtEnd = false;
    this.target = { item, locate, offset };
    this.layout();
  }

  /** Leave it to the reader where to scroll. */
  #release() {
    this.target = null;
    this.isHeldAtEnd = false;
  }

  #scrolled() {
    // The browser itself may scroll, for example to words that it has found; but what is left of
    // scrolling by a key must not lead away from what is shown since.
    const isGliding = performance.now() - this.keyTime < GLIDE;
    if (!isGliding && Math.abs(this.scroller.scrollTop - this.top) >= 1) this.#release();
    this.schedule();
  }

  #keyDown(event) {
    this.#release();
    this.keyTime = performance.now();
    if (event.key !== "End" || event.shiftKey) return;
    // The browser would scroll to where the end is by the estimates.
    event.preventDefault();
    this.isHeldAtEnd = true;
    this.layout();
  }

  /** Build an item anew, for example when its content has arrived. */
  rebuild(i) {
    if (this.nodes.has(i)) this.#remove(i);
    this.schedule();
  }

  /** Return the index of the item at the top of what is visible. */
  first() {
    return this.#at(this.scroller.scrollTop);
  }

  /** Return the index of the item at a third of what is visible. */
  middle() {
    return this.#at(this.scroller.scrollTop + this.scroller.clientHeight / 3);
  }

  layout() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const height = this.scroller.clientHeight;
    if (!height || !this.items.count) return; // in a hidden panel
    const anchor = this.first();
    const inside = this.scroller.scrollTop - this.offsets[anchor];
    const bottom = this.scroller.scrollTop + height;
    const wasAtEnd = this.scroller.scrollTop > 0 && bottom >= this.offsets[this.items.count] - 1;
    const isAtEnd = this.isHeldAtEnd || wasAtEnd;
    let top = 0;
    for (let pass = 0; pass < MAX_PASSES; pass++) {
      const wanted =
        this.#targetTop(height) ?? (isAtEnd ? Infinity : this.offsets[anchor] + inside);
      top = Math.max(Math.min(wanted, this.offsets[this.items.count] - height), 0);
      const first = this.#at(top - OVERSCAN * height);
      if (!this.#build(first, this.#at(top + (1 + OVERSCAN) * height))) break;
      this.#sum();
    }
    this.canvas.style.height = `${this.offsets[this.items.count]}px`;
    for (const [i, node] of this.nodes) node.style.top = `${this.offsets[i]}px`;
    if (Math.abs(top - this.scroller.scrollTop) >= 1) this.scroller.scrollTop = top;
    const found = this.target?.locate()?.getBoundingClientRect();
    const { left, right } = this.scroller.getBoundingClientRect();
    if (found && (found.left < left || found.right > right)) {
      this.scroller.scrollLeft += found.left - left - MARGIN;
    }
    this.top = this.scroller.scrollTop;
    this.onLayout?.();
  }

  #at(offset) {
    return Math.min(Math.max(lastAtMost(this.offsets, offset), 0), this.items.count - 1);
  }

  /** Return where to scroll so that the target is in its place; null without a target. */
  #targetTop(height) {
    if (!this.target) return null;
    const i = this.target.item();
    const found = this.target.locate();
    const top = (element) => element.getBoundingClientRect().top;
    const inside = found && this.nodes.has(i) ? top(found) - top(this.nodes.get(i)) : 0;
    return this.offsets[i] + inside - (this.target.offset ?? height / 3);
  }

  /** Build the items of a range and take out all others; tell whether there were new ones. */
  #build(first, last) {
    for (const [i, node] of [...this.nodes]) {
      if ((i < first || i > last) && !this.#isInUse(node)) this.#remove(i);
    }
    const fresh = [];
    for (let i = first; i <= last; i++) {
      if (this.nodes.has(i)) continue;
      this.nodes.set(i, this.items.build(i, this.heights[i]));
      fresh.push(i);
    }
    if (!fresh.length) return false;
    let next = null; // screen readers read elements in their order
    for (const i of [...this.nodes.keys()].sort((a, b) => b - a)) {
      const node = this.nodes.get(i);
      if (!node.isConnected) this.canvas.insertBefore(node, next);
      next = node;
    }
    for (const i of fresh) this.heights[i] = this.nodes.get(i).offsetHeight;
    return true;
  }

  /** Tell whether an item has the focus or is selected: it must not vanish. */
  #isInUse(node) {
    const selection = getSelection();
    const isSelecting = !selection.isCollapsed && this.canvas.contains(selection.anchorNode);
    const isSelected = isSelecting && selection.containsNode(node, true);
    return isSelected || node.contains(document.activeElement);
  }

  #remove(i) {
    const node = this.nodes.get(i);
    this.nodes.delete(i);
    node.remove();
    this.items.dispose?.(i, node);
  }

  #estimate() {
    this.heights = Float64Array.from({ length: this.items.count }, (_, i) =>
      this.items.estimate(i),
    );
    this.#sum();
  }

  #sum() {
    for (let i = 0; i < this.heights.length; i++) {
      this.offsets[i + 1] = this.offsets[i] + this.heights[i];
    }
  }

  #resized() {
    const width = this.scroller.clientWidth;
    if (width && width !== this.width) this.remeasure();
    else this.layout();
  }

  /** Build everything anew in another size, at the same place. */
  remeasure() {
    const anchor = this.first();
    const share = (this.scroller.scrollTop - this.offsets[anchor]) / (this.heights[anchor] || 1);
    this.width = this.scroller.clientWidth;
    for (const i of [...this.nodes.keys()]) this.#remove(i);
    this.#estimate();
    this.canvas.style.height = `${this.offsets[this.items.count]}px`;
    this.scroller.scrollTop = this.offsets[anchor] + share * this.heights[anchor];
    this.layout();
  }
}
