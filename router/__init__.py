"""Routers: policies, the artifact on disk, selection and search.

Importing this package loads numpy and nothing heavier; a policy's back end is loaded when the
policy is.
"""

from router.router import Choice, Router, SearchResult

__all__ = ["Choice", "Router", "SearchResult"]
