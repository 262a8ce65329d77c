"""Files of word processors, and e-books."""
