"""Labels made alike: spaces and case, which make several levels of what is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from tensorbandits.space.labels import Label

Step = Literal["strip", "casefold"]
Clean = str | Sequence[str] | Mapping[str, str | Sequence[str]]
_STEPS: tuple[Step, ...] = get_args(Step)
_WAYS: tuple[tuple[Step, ...], ...] = (("strip",), ("casefold",), _STEPS)  # the least that mends first


def clean_label(label: Label, clean: str | Sequence[str] = _STEPS) -> Label:
    """Return a label as a log that was read with ``clean`` has it; what is no text stays as it is.

    ``"strip"`` takes away spaces at both ends, and makes one of several within; ``"casefold"`` makes letters small.

    >>> clean_label(" New  York "), clean_label(" New  York ", "strip"), clean_label(7)
    ('new york', 'New York', 7)
    """
    return applied(label, steps_of(clean))


def applied(label: Label, steps: Sequence[Step]) -> Label:
    """Return a label after some steps, which were checked."""
    if not isinstance(label, str):
        return label
    text = " ".join(label.split()) if "strip" in steps else label
    return text.casefold() if "casefold" in steps else text


def steps_of(clean: Any) -> tuple[Step, ...]:
    """Return the steps that are meant, in the order in which they are taken.

    >>> steps_of("casefold, strip"), steps_of(["strip"])
    (('strip', 'casefold'), ('strip',))
    """
    allowed = f"allowed are {' and '.join(map(repr, _STEPS))}, or both as 'strip,casefold'"
    if not isinstance(clean, (str, list, tuple)):
        raise TypeError(f"clean is {clean!r}; {allowed}, of all modes or by mode: {{'country': 'strip'}}")
    named = [name.strip() for name in clean.split(",")] if isinstance(clean, str) else list(clean)
    for name in named:
        if name not in _STEPS:
            raise ValueError(f"clean is {clean!r}, of which {name!r} is no way to clean labels; {allowed}")
    return tuple(step for step in _STEPS if step in named)


def check_clean(clean: Any, modes: Sequence[str]) -> dict[str, tuple[Step, ...]]:
    """Return the steps of each mode whose labels are to be cleaned.

    >>> check_clean({"country": "strip"}, ["country", "offer"]), check_clean(None, ["country"])
    ({'country': ('strip',)}, {})
    """
    if clean is None:
        return {}
    wanted = dict(clean) if isinstance(clean, Mapping) else dict.fromkeys(modes, clean)
    for mode in wanted:
        if mode not in modes:
            raise ValueError(f"clean names the mode {mode!r}; the modes are {list(modes)}")
    return {mode: steps_of(how) for mode, how in wanted.items()}


class Merge(NamedTuple):
    """Labels of a mode that would be one level, and what that would be called."""

    mode: str
    label: Label
    labels: tuple[Label, ...]


def merges(modes: Mapping[str, Sequence[Label]]) -> tuple[tuple[Step, ...], list[Merge]]:
    """Return which labels of each mode are the same but for case or spaces, and the fewest steps that make them one.

    >>> merges({"offer": ["new", "New ", "old"], "channel": ["mail", "sms"]})
    (('strip', 'casefold'), [Merge(mode='offer', label='new', labels=('new', 'New '))])
    """
    found = {steps: _merged(modes, steps) for steps in _WAYS}
    most = len(found[_STEPS]), sum(len(merge.labels) for merge in found[_STEPS])
    for steps, some in found.items():
        if (len(some), sum(len(merge.labels) for merge in some)) == most:
            return steps, some
    raise AssertionError("all steps merge as much as all steps")


def _merged(modes: Mapping[str, Sequence[Label]], steps: tuple[Step, ...]) -> list[Merge]:
    found = []
    for mode, labels in modes.items():
        groups: dict[str, list[Label]] = {}
        for label in labels:
            if isinstance(label, str):
                groups.setdefault(str(applied(label, steps)), []).append(label)
        found += [Merge(mode, name, tuple(group)) for name, group in groups.items() if len(group) > 1]
    return found
