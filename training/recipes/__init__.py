"""Recipes: YAML files of complete runs."""
