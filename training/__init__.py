"""Training of routers: reward targets, losses, Lightning modules, baselines."""
