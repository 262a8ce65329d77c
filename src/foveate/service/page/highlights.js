// The words of a query, highlighted in results and text, whose elements stay as they are.

import { byId, debounce } from "./dom.js";

const WHERE = ".results .words, #text .sentence, .text-layer .line > span";
const SETTLING = 50; // milliseconds after a change of the page
// What questions are made of, and what is not looked for.
const COMMON = new Set(
  (
    "a about all am an and any are as at be been but by can could did do does for from had has " +
    "have how i if in into is it its many may me more most much my no not of on or our should " +
    "so some such than that the their them then there these they this those to up us was we were " +
    "what when where which who whom whose why will with would you your"
  ).split(" "),
);

let pattern = null;

/** Return a pattern of the words of a query, in the singular and plural and as forms of verbs. */
export function wordsOf(query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const stems = words
    .filter((word) => !COMMON.has(word))
    .map((word) => word.replace(/((?<=\p{L}{4})ing|(?<=\p{L}{3})(ed|es|(?<!s)s))$/u, ""));
  if (!stems.length) return null;
  const any = [...new Set(stems)].join("|");
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${any})(?:ing|e?d|e?s|e)?(?![\\p{L}\\p{N}])`, "giu");
}

/** Highlight what matches a pattern; null for nothing. */
export function highlight(words) {
  pattern = words;
  paint();
}

function paint() {
  const ranges = [];
  for (const root of pattern ? document.querySelectorAll(WHERE) : []) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      for (const { index, 0: found } of node.data.matchAll(pattern)) {
        const [startOffset, endOffset] = [index, index + found.length];
        const ends = { startContainer: node, endContainer: node, startOffset, endOffset };
        ranges.push(new StaticRange(ends));
      }
    }
  }
  CSS.highlights?.set("query", new Highlight(...ranges));
}

const later = debounce(() => pattern && paint(), SETTLING);
new MutationObserver(later).observe(byId("main"), { childList: true, subtree: true });
