"""The decision service: bandits over HTTP, whose every acknowledged event is durable."""
