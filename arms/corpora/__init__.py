"""Readers of corpora and the granularity views over them."""
