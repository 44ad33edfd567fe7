"""The columns of a log: which of them are modes, how times are binned, and how levels are named and ordered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from tensorbandits.base.checks import is_sequence, nearest
from tensorbandits.space.labels import Label

if TYPE_CHECKING:
    import narwhals as nw

Schema = Mapping[str, Any]  # of column names to narwhals types

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SHOWN = 30  # columns that an error lists
_BINS = (
    "weekday, hour, month, or slots of so many hours that divide 24: 2h, 3h, 4h, 6h, 8h, 12h; and of numbers regions: "
    "'8 regions'"
)


@dataclass(frozen=True)
class Mode:
    """A mode of a log: its name as given, its column, and its bin (``weekday``, ``hour``, ``month``, ``3h``) if any.

    ``wide`` says that its levels are whole numbers of more than 64 bits, which come from their engine as text.
    ``regions`` are the names of regions of numbers, of which the column has the indices.
    """

    name: str
    column: str
    bin: str | None = None
    wide: bool = False
    regions: tuple[str, ...] = ()

    @property
    def hours(self) -> int | None:
        """The hours of a slot, for bins such as ``3h``."""
        return int(self.bin[:-1]) if self.bin and self.bin[:-1].isdigit() else None

    def key(self, schema: Schema) -> nw.Expr:
        """Return the expression whose distinct values are the levels."""
        import narwhals as nw

        column, kind = nw.col(self.column), schema[self.column]
        if self.hours:
            return column.dt.hour() // self.hours
        if self.bin:
            return getattr(column.dt, self.bin)()  # type: ignore[no-any-return]
        if isinstance(kind, nw.Decimal):
            return column.cast(nw.Float64())
        if self.wide:
            return column.cast(nw.String())
        # Categories carry orders of their own, which differ between engines.
        return column.cast(nw.String()) if isinstance(kind, (nw.Categorical, nw.Enum)) else column

    def position(self, key: Any) -> Any:
        """Return what levels are ordered by.

        >>> mode = Mode("time:weekday", "time", "weekday")
        >>> mode.position(1), mode.position(7), mode.position(0)
        (0, 6, 6)
        """
        if self.bin == "weekday":
            return (int(key) - 1) % 7  # Sunday is 7, but 0 in Spark
        return int(key) if self.wide else key

    def label(self, key: Any) -> Label:
        """Return what a level is called.

        >>> Mode("time:weekday", "time", "weekday").label(1), Mode("time:3h", "time", "3h").label(2)
        ('Mon', '06-09')
        """
        if self.regions:
            return self.regions[int(key)]
        if self.bin == "weekday":
            return _WEEKDAYS[self.position(key)]
        if self.bin == "month":
            return _MONTHS[int(key) - 1]
        if self.hours:
            return f"{int(key) * self.hours:02d}-{(int(key) + 1) * self.hours:02d}"
        if self.wide:
            return int(key)
        if isinstance(key, float) and key.is_integer():
            return int(key)  # a column of whole numbers becomes one of floats in some engines
        return key  # type: ignore[no-any-return]


def parse_modes(modes: Sequence[str], schema: Schema, least: int = 2) -> tuple[Mode, ...]:
    """Return the modes, at least so many, each a column of the schema, with a bin if it is named with one."""
    if not is_sequence(modes) or not all(isinstance(name, str) for name in modes):
        raise TypeError(f"modes is {modes!r}; give a list of column names, for example ['station', 'time:weekday']")
    if len(modes) < least:
        raise ValueError(
            f"modes is {list(modes)}; give at least {least}, as a cell combines the levels of several modes"
        )
    if twice := [name for name in modes if list(modes).count(name) > 1]:
        raise ValueError(f"mode {twice[0]!r} is given twice; name each mode once")
    return tuple(_parse_mode(name, schema) for name in modes)


def _parse_mode(name: str, schema: Schema) -> Mode:
    import narwhals as nw

    if name in schema:  # a column may have a colon in its own name
        return Mode(name, name, wide=isinstance(schema[name], (nw.Int128, nw.UInt128)))
    column, colon, unit = name.rpartition(":")
    if not colon:
        raise unknown_column(name, "mode", schema)
    if column not in schema:
        raise unknown_column(column, f"mode {name!r}: column", schema)
    hours = unit[:-1] if unit.endswith("h") else ""
    slots = hours.isascii() and hours.isdigit() and 0 < int(hours) < 24 and 24 % int(hours) == 0
    if unit not in ("weekday", "hour", "month") and not slots:
        raise ValueError(f"mode {name!r} has the bin {unit!r}; allowed are {_BINS}")
    return Mode(name, column, f"{int(hours)}h" if slots else unit)


def check_kind(mode: Mode, schema: Schema, known: bool = False) -> None:
    """Refuse a bin of what is no time, and levels that would have no natural order.

    Times without a bin are taken where the levels are ``known``.
    """
    import narwhals as nw

    kind = schema[mode.column]
    if mode.bin:
        times = (nw.Datetime, nw.Date) if mode.bin in ("weekday", "month") else (nw.Datetime,)
        if not isinstance(kind, times):
            raise TypeError(
                f"mode {mode.name!r} bins column {mode.column!r}, which is of type {kind}, not a time; "
                f"name the column without a bin, or make it {'a date or ' if len(times) > 1 else ''}a time first"
            )
    elif isinstance(kind, (nw.Datetime, nw.Date)):
        if known:
            return
        raise TypeError(
            f"mode {mode.name!r} is of type {kind}, and each time would be a level of its own; "
            f"bin it, as in '{mode.name}:weekday' (allowed are {_BINS}), or make the column text if that is meant"
        )
    elif not (kind.is_numeric() or isinstance(kind, (nw.String, nw.Categorical, nw.Enum, nw.Boolean))):
        raise TypeError(
            f"mode {mode.name!r} is of type {kind}, whose values have no natural order; "
            "make the column one of text or of numbers first"
        )


def unknown_column(name: Any, what: str, columns: Iterable[str]) -> ValueError:
    """Return the error of a column that does not exist, with the nearest one that does."""
    listed = list(columns)
    hint = nearest(name, listed) or "name one of them"
    shown = ", ".join(shorten(repr(column)) for column in listed[:_SHOWN])
    more = f" and {len(listed) - _SHOWN:,} more" if len(listed) > _SHOWN else ""
    return ValueError(f"{what} {name!r} is not a column of the log, which has [{shown}]{more}; {hint}")


def shorten(text: str, longest: int = 60) -> str:
    """Return a text, cut if it is longer.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def check_top(top: int | Mapping[str, int] | None, modes: Sequence[Mode]) -> dict[str, int]:
    """Return how many levels to keep, by mode; modes that keep all are left out."""
    if top is None:
        return {}
    names = [mode.name for mode in modes]
    wanted = dict(top) if isinstance(top, Mapping) else dict.fromkeys(names, top)
    for name, count in wanted.items():
        if name not in names:
            raise ValueError(f"top names the mode {name!r}; the modes are {names}")
        if isinstance(count, bool) or not isinstance(count, Integral):
            raise TypeError(f"top is {count!r} for mode {name!r}; give a whole number of levels to keep, at least 2")
        if count < 2:
            raise ValueError(f"top is {count} for mode {name!r}; keep at least 2 levels, or leave the mode out")
    return {name: int(count) for name, count in wanted.items()}
