"""The HTTP service that `foveate serve` runs: its interface for programs, and the reader page."""
