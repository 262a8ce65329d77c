"""Measurements of speed and of the product's quality; see README.md."""
