"""Tasks on documents: summarize, search, ask, embed, inspect, find keywords, and plot attention."""
