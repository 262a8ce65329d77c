"""The mechanisms as pure functions on tensors: torch alone, triton where it is present."""
