"""Read long documents with Transformers that look closely where it matters and coarsely elsewhere."""
