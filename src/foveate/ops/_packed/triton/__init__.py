"""Building blocks of the kernels: tables of tiles, the bias and its gradient, tile sizes."""
