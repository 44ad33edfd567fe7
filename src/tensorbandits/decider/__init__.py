"""Deciding from published snapshots, in any process: tokens, followers, and the decider itself."""
