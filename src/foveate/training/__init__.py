"""Objectives, batches and recipes, on transformers' Trainer."""
