"""Pieces of the kernels: tables of tiles, the bias and its gradient, sizes of tiles."""
