"""``l2r audit``: what a reviewer of the labels, and of claims made from them, would check."""
