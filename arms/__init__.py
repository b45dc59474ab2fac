"""Retrieval pipelines (arms): records, the arm contract, corpora, encoders, indexes."""
