"""Routers from routing labels alone: a table of queries and the routes each one needs, no arms."""
