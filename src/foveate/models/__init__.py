"""Hugging Face models and what makes other people's models faster or longer."""
