"""Indexes on disk: vectors, token vectors, words."""
