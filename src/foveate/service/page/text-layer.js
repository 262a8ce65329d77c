// The words of a page, transparent over its picture, to be selected, copied and found.

import { element } from "./dom.js";

const MEASURED_SIZE = 100; // pixels

const canvas = element("canvas").getContext("2d");
canvas.font = `${MEASURED_SIZE}px sans-serif`; // the family is also in the style sheet

/**
 * Lay out the words of a page in points, as large as on its picture.
 *
 * @param {Object} layer What the service says about the words.
 * @param {Object} page Its `width` and `height` in points.
 * @param {number} scale Pixels per point.
 */
export function textLayer({ quarter_turns: turns, columns }, { width, height }, scale) {
  const attributes = { class: "text-layer", "aria-hidden": "true" }; // the boxes hold the sentences
  const layer = element("div", attributes, ...columns.map(column));
  const isSideways = turns % 2 === 1;
  layer.style.width = `${isSideways ? height : width}px`;
  layer.style.height = `${isSideways ? width : height}px`;
  const [x, y] = [[0, 0], [width, 0], [width, height], [0, height]][turns];
  layer.style.transform = `scale(${scale}) translate(${x}px, ${y}px) rotate(${90 * turns}deg)`;
  return layer;
}

/**
 * Make one block of the lines of a column, in which browsers find words across lines and let one
 * select between lines. Each line is as high as the way to the next.
 */
function column(lines) {
  const left = Math.min(...lines.map(({ words }) => words[0][1]));
  const right = Math.max(...lines.map(({ words }) => words.at(-1)[2]));
  const block = element("div", { class: "column" });
  block.style.left = `${left}px`;
  block.style.top = `${lines[0].top}px`;
  block.style.paddingRight = `${right - left}px`; // the width is 0, so that every line is broken
  let top = lines[0].top;
  lines.forEach((line, i) => {
    const bottom = Math.max(lines[i + 1]?.top ?? line.bottom, top + 1);
    const made = element("span", { class: "line" }, ...line.words.map((_, at) => word(line, at)));
    made.style.marginLeft = `${line.words[0][1] - left}px`;
    made.style.fontSize = `${line.size}px`;
    made.style.lineHeight = `${Math.max(Math.min(line.bottom, bottom) - top, 1)}px`;
    made.style.setProperty("--height", `${bottom - top}px`);
    block.append(made, line.end || element("wbr"));
    top = bottom;
  });
  return block;
}

/** Space the letters of a word, and the space after it, to be as wide as on the picture. */
function word({ words, size }, at) {
  const [text, left, right] = words[at];
  const next = words[at + 1]?.[1] ?? right;
  const letters = text.trimEnd();
  const isSpaced = letters !== text;
  const measure = (part) => (canvas.measureText(part).width * size) / MEASURED_SIZE;
  const room = (isSpaced ? right : next) - left;
  const spacing = (room - measure(letters)) / Math.max([...letters].length, 1);
  const made = element("span", {}, text);
  made.style.letterSpacing = `${spacing}px`;
  if (isSpaced) made.style.wordSpacing = `${next - right - measure(" ") - spacing}px`;
  return made;
}
