"""Documents into token ids and trees: all that a tokenizer's side of a model does."""
