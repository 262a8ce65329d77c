"""A loaded model with a purpose: encode, summarize, answer."""
