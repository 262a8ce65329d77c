"""What is attended, as pictures."""
