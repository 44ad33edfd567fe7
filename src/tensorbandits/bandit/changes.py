"""The history of changes: who made a bandit, set it otherwise, added a level or a rule, when, with before and after.

Decisions and rewards are no changes. The list is a part of the state, so that it outlives the events that it is made
of: they may be folded away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from tensorbandits.bandit.events import BanditEvent
from tensorbandits.base.checks import check_count

MOST = 20_000  # changes that are kept
LONGEST_REASON = 500  # characters
_LABELS = 4  # labels of a mode that a rule lists

Change = dict[str, Any]  # number, time, kind, actor, and what the event says


class ChangeLog:
    """The changes that a state has seen, oldest first, numbered from 1; ``lost`` is how many were too many to be kept.

    ``since`` is the event after which they are known: a base that an early release folded has none of before.
    """

    def __init__(self, since: int = 0) -> None:
        self.since, self.lost = since, 0
        self._rows: list[Change] = []

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, event: BanditEvent) -> None:
        """Add a change."""
        row = {"number": self.lost + len(self) + 1, "time": event.time, "kind": event.kind, "actor": event.actor}
        self._rows.append(row | event.noted())
        if len(self._rows) > MOST:
            self.lost += 1
            del self._rows[0]

    def rows(self) -> Sequence[Change]:
        """Return a copy of the list; its rows are shared, and must not be changed."""
        return list(self._rows)

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"since": self.since, "lost": self.lost, "rows": list(self._rows)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what :meth:`state` described."""
        changes = cls(check_count(state["since"], "since", 0))
        changes.lost = check_count(state["lost"], "lost", 0)
        changes._rows = [dict(row) for row in state["rows"]]
        return changes


def chosen(
    rows: Iterable[Change],
    *,
    kinds: Sequence[str] = (),
    actor: str | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[Change]:
    """Return the changes of some kinds, by an actor, from a time on and up to another."""
    return [
        row
        for row in rows
        if (not kinds or row["kind"] in kinds)
        and (actor is None or row["actor"] == actor)
        and (since is None or row["time"] >= since)
        and (until is None or row["time"] <= until)
    ]


def described(row: Change) -> dict[str, Any]:
    """Return a change for people: number, time, kind and actor, a sentence, and each thing before and after.

    >>> row = {"number": 7, "time": 0.0, "kind": "Changed", "actor": "Ann", "settings": {"holdout": 0.2}, "was": {}}
    >>> described(row)["words"], described(row)["items"]
    ('holdout: from not set to 0.2', [{'what': 'holdout', 'before': None, 'after': 0.2}])
    """
    items = [{"what": what, "before": before, "after": after} for what, before, after in _items(row)]
    kept = {name: row[name] for name in ("number", "time", "kind", "actor")}
    return {**kept, "words": _words(row, items), "items": items}


def undone(row: Change) -> dict[str, Any] | None:
    """Return the change that puts back what one has changed, as HTTP has it; ``None`` where nothing does.

    >>> undone({"kind": "LevelAdded", "mode": "offer", "label": "summer"})
    {'retire_level': {'mode': 'offer', 'label': 'summer'}}
    >>> undone({"kind": "Changed", "settings": {"holdout": 0.2}, "was": {"holdout": 0.1}})
    {'settings': {'holdout': 0.1}}
    """
    kind = row["kind"]
    if kind == "Changed":
        was = row.get("was") or {}
        return (
            {"settings": {name: was[name] for name in row["settings"]}}
            if was.keys() >= row["settings"].keys()
            else None
        )
    if kind in ("LevelAdded", "LevelRetired", "LevelRestored"):
        level = {"mode": row["mode"], "label": row["label"]}
        return {"restore_level" if kind == "LevelRetired" else "retire_level": level}
    if kind == "RuleChanged":
        return {"remove_rule" if row["add"] else "add_rule": row["rule"]}
    if kind == "Described" and row.get("whole"):
        levels: list[dict[str, Any]] = []
        for label, name, was, _ in row["some"]:
            if not levels or levels[-1]["label"] != label:
                levels.append({"label": label, "features": {}})
            levels[-1]["features"][name] = was
        return {"describe": {"mode": row["mode"], "levels": levels}}
    return None


def _items(row: Change) -> list[tuple[str, Any, Any]]:
    kind = row["kind"]
    if kind == "Created":
        return [(name, None, value) for name, value in row["settings"].items() if value not in (None, [], {})]
    if kind == "Changed":
        was = row.get("was") or {}
        return [(name, was.get(name), value) for name, value in row["settings"].items()]
    if kind in ("LevelAdded", "LevelRetired", "LevelRestored"):
        before = {"LevelAdded": None, "LevelRetired": "chosen from", "LevelRestored": "retired"}[kind]
        after = "retired" if kind == "LevelRetired" else "chosen from"
        return [(f"{row['mode']}: {label_words(row['label'])}", before, after)]
    if kind == "RegionSplit":
        return [(f"{row['mode']}: {row['region']}", "a region", f"split at {row['of']} {row['at']:g}")]
    if kind == "Described":
        return [(f"{row['mode']} {label_words(label)}: {name}", was, now) for label, name, was, now in row["some"]]
    if kind == "RuleChanged":
        words = rule_words(row["rule"])
        return [("rule", None, words) if row["add"] else ("rule", words, None)]
    return []


def _words(row: Change, items: Sequence[Mapping[str, Any]]) -> str:
    """The sentence of a change."""
    kind = row["kind"]
    if kind == "Created":
        sizes = [f"{size:,} {mode}" for mode, size in row.get("sizes", {}).items()]
        return f"made, of {' x '.join(sizes)}" if sizes else "made"
    if kind == "Changed":
        return "; ".join(
            f"{one['what']}: from {setting_words(one['before'])} to {setting_words(one['after'])}" for one in items
        )
    if kind.startswith("Level") and "label" in row:
        done = {"LevelAdded": "added to", "LevelRetired": "retired in", "LevelRestored": "restored in"}[kind]
        like = f", starting like {label_words(row['like'])}" if row.get("like") is not None else ""
        return f"{label_words(row['label'])} {done} {row['mode']}{like}"
    if kind == "RegionsLearned":
        return f"{row['regions']:,} regions of {row['mode']} learned"
    if kind == "RegionSplit":
        return f"{row['region']} of {row['mode']} split at {row['of']} {row['at']:g}"
    if kind == "Described":
        listed = ", ".join(row["features"])
        new = f"{'all new' if row['anew'] else 'changed'}, of {row['levels']:,} levels: {listed}"
        return f"features of {row['mode']} {'taken away' if row['gone'] else new}"
    if kind == "RuleChanged":
        return ("" if row["add"] else "taken back: ") + rule_words(row["rule"])
    if kind == "Imported":
        return f"{_count(row.get('rewards'))} rewards of {_count(row.get('rows'))} rows of a log"
    if kind == "Skipped":
        return f"event {row['skipped']} is left out: {row['why']}"
    if kind == "Forgotten":
        return f"{row['decisions']:,} {'decision' if row['decisions'] == 1 else 'decisions'} forgotten: {row['why']}"
    return "deleted" if kind == "Deleted" else str(kind)


def _count(value: Any) -> str:
    return "?" if value is None else f"{value:,g}"


def setting_words(value: Any) -> str:
    """Return the value of a setting in words.

    >>> setting_words(None), setting_words(True), setting_words([{"labels": {"offer": "a"}, "share": 0.1}])
    ('not set', 'yes', 'offer a 0.1')
    """
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(part, Mapping) and "labels" in part for part in value):
        return ", ".join(f"{_labels(part['labels'])} {part['share']:g}" for part in value) or "none"
    return _labels(value) if isinstance(value, Mapping) else str(value)


def _labels(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{mode} {label_words(label)}" for mode, label in labels.items()) or "all"


def label_words(label: Any) -> Any:
    """Return a label as JSON wrote it, without the object around dates."""
    return next(iter(label.values())) if isinstance(label, dict) else label


def rule_words(rule: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a rule in words.

    >>> rule_words({"allow": {"offer": "a", "channel": ["mail", "web"]}})
    'where offer is a, only: channel mail, web'
    """
    ((what, labels),) = rule.items()
    single = [f"{mode} is {label_words(one)}" for mode, one in labels.items() if not isinstance(one, list | tuple)]
    if what == "forbid":
        return f"never where {' and '.join(single)}"
    lists = {mode: some for mode, some in labels.items() if isinstance(some, list | tuple)}
    only = [
        f"{mode} {', '.join(str(label_words(one)) for one in some[:_LABELS])}{', …' if len(some) > _LABELS else ''}"
        for mode, some in lists.items()
    ]
    where = f"where {' and '.join(single)}, " if single else ""
    return f"{where}only: {'; '.join(only)}"


def check_reason(why: Any) -> str:
    """Return the reason that a caller gives, checked."""
    if not isinstance(why, str) or not 1 <= len(why.strip()) <= LONGEST_REASON or not why.isprintable():
        raise ValueError(
            f"why is {str(why)[:60]!r}; give the reason in 1 to {LONGEST_REASON} printable characters: it stays in the "
            "log for good, so do not name the person in it"
        )
    return why.strip()
