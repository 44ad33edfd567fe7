"""HTTP: routes, keys, limits and errors of the decision service."""
