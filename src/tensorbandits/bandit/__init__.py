"""What an application holds: decisions with ids, the law they are drawn by, and what was learned, by name."""
