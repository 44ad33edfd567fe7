"""The routes of the HTTP API, one file per family: each reads a request, calls the service, and writes the answer."""
