"""The HTTP service that `foveate serve` runs: an API for programs, and the reader page."""
