"""The lake: decisions and rewards as files that any engine reads, their join, and learning from it."""
