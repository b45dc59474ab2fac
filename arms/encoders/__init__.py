"""Encoders of text into vectors, one per text or one per token."""
