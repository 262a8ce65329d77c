"""What the Triton kernels of all ops share."""
