"""One module for each format, with one function, ``read``, that yields headings and paragraphs."""
