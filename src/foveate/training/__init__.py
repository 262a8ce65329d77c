"""Objectives, data loading and recipes, on transformers' Trainer."""

from .recipe import Recipe, recipe_names
from .run import build_trainer, train

__all__ = ["Recipe", "build_trainer", "recipe_names", "train"]
