"""Word processors' files and e-books."""
