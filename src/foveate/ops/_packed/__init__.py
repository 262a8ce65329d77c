"""Building blocks of attention over packed sequences with T5's relative position bias.

Relative, window and Fovea attention share them. Sequences are packed: their tokens are concatenated
along the first axis, `(tokens, heads, head_dim)`, and their lengths are host integers.
"""
