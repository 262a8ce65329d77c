"""Hugging Face models of HDT, Fovea and VCC, and drop-in speed-ups for models of transformers."""
