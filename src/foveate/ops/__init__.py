"""Attention mechanisms and layers as pure functions on tensors, in PyTorch and in Triton."""
