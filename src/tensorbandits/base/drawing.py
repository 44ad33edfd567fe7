"""What all figures share: colours that any colour vision tells apart, words as they are written, and files."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with any colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")


def as_written(words: str, longest: int = 60) -> str:
    r"""Return words that matplotlib shows as they are: dollars are no formula, and a leading underscore hides nothing.

    What cannot be printed, such as the end of a line, becomes a space; the middle of very long words is left out.

    >>> print(as_written("usd_$_per_$_click") + as_written("_name") + as_written(" a long\nname", 6))
    usd_\$_per_\$_click _name a …me
    """
    plain = "".join(letter if letter.isprintable() else " " for letter in words)
    if len(plain) > longest:
        plain = f"{plain[: longest // 2]}…{plain[len(plain) - (longest - 1) // 2 :]}"
    plain = plain.replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def write(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure; a letter that no font here has is drawn as a box, which is no reason to warn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(path, dpi=150)
