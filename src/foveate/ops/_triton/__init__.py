"""Building blocks that the Triton kernels of all ops share."""
