"""Datasets: one Example type, readers of benchmark formats, and corpora that stay on disk."""
