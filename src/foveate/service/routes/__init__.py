"""The routes, grouped by topic."""
