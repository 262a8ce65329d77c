"""Objectives, data loading and recipes, on transformers' Trainer."""
