// Where something stands, in words.

/** Return the parts of a place: the titles around it in one string, and its page or line. */
export function placeParts(span) {
  const path = (span.path ?? []).filter(Boolean).join(" › ");
  return [path, span.place || (span.page ? `page ${span.page}` : "")].filter(Boolean);
}

/** Name a place by its sections and page: "Methods › Nets, page 3". */
export const placeName = (span) => placeParts(span).join(", ");

/** Name a document by its title or the name of its file. */
export const titleOf = ({ title, name }) =>
  title || name.split(/[/\\]/).at(-1) || "Untitled document";

/** Quote words with the title of their document, their section and their page. */
export function citation(text, title, span) {
  return `“${text}” (${[title, placeName(span)].filter(Boolean).join(", ")})`;
}

/** The place of a sentence of an open document, in the form of a span. */
export function spanOf(reading, sentence) {
  const path = reading.path(sentence.section_idx).map((at) => reading.sections[at].title);
  return { path, page: sentence.page, place: sentence.place };
}
