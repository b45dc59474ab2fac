"""Retrieval pipelines, one file each."""
