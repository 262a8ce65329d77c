"""Attention patterns as pictures."""

from foveate.tasks.plots.fovea import plot_fovea
from foveate.tasks.plots.tree import plot_tree
from foveate.tasks.plots.vip import plot_vip
from foveate.tasks.plots.windows import plot_windows

__all__ = ["plot_fovea", "plot_tree", "plot_vip", "plot_windows"]
