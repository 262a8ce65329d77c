"""The default model of foveate, a checkpoint in the layout of transformers."""
