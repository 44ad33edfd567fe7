"""The routes of the service: parse, call, serialise. One file per family."""
