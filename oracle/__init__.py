"""The oracle: every arm on every query, with quality and latency, as labels."""
