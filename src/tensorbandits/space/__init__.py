"""Named modes and levels, and the rules of what may be chosen."""

from tensorbandits.space.space import Space

__all__ = ["Space"]
