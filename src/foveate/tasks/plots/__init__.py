"""Attention patterns as pictures, and results on the pages of a PDF."""

from foveate.tasks.plots.pdf import plot_pdf
from foveate.tasks.plots.tree import plot_tree
from foveate.tasks.plots.vip import plot_vip

__all__ = ["plot_pdf", "plot_tree", "plot_vip"]
