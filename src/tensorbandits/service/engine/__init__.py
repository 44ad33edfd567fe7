"""The bandits of one server process: their states, the writer of events, and the threads that learn."""
