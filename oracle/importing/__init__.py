"""Other people's tables and runs as oracle labels."""
