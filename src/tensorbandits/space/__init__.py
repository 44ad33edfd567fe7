"""Named modes and levels, regions of numbers, and the rules of what may be chosen."""

from tensorbandits.space.numeric import Numeric
from tensorbandits.space.space import Space

__all__ = ["Numeric", "Space"]
