// Where something stands, in words.

/** Name a place by its sections and page: "Methods › Nets, page 3". */
export function placeName(span, space = " › ") {
  const path = (span.path ?? []).filter(Boolean).join(space);
  const place = span.place || (span.page ? `page ${span.page}` : "");
  return [path, place].filter(Boolean).join(", ");
}

/** Quote words with the title of their document, their section and their page. */
export function citation(text, title, span) {
  return `“${text}” (${[title, placeName(span)].filter(Boolean).join(", ")})`;
}

/** The place of a sentence of an open document, in the form of a span. */
export function spanOf(reading, sentence) {
  const path = reading.path(sentence.section_idx).map((at) => reading.sections[at].title);
  return { path, page: sentence.page, place: sentence.place };
}
