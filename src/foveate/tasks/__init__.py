"""What people ask of documents: summarize, search, embed, inspect, and see how they are read."""
