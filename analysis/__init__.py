"""Analysis of trade-offs: frontiers, tables, figures, the report."""
