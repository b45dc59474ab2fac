"""Routers: policies, the artifact on disk, selection and search."""
