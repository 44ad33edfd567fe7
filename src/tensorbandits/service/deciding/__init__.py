"""The decide server: answers ask and tell over HTTP from published snapshots, without a database."""
