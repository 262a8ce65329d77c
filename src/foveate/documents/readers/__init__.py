"""One module per format, each with a function `read` that returns headings and paragraphs."""
