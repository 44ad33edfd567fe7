"""Records of a lake: the columns of decisions and of rewards, and the names of folders and files.

Decisions and rewards lie apart, by bandit and by the UTC hour *of the decision*, rewards too::

    decisions/bandit=offers/hour=2026-11-19T06/part-<writer>-<number>.parquet
    rewards/bandit=offers/hour=2026-11-19T06/part-<writer>-<number>.parquet

A file says of which kind, version, bandit and uid it is (``Origin``), so that a reader can refuse others.
Only who writes or reads a lake imports this file, as it needs pyarrow.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self, get_args

import pyarrow as pa
import pyarrow.parquet as pq

Kind = Literal["decisions", "rewards"]

VERSION = 1  # of the columns: a reader refuses files of a later one
HOUR = 3_600  # seconds
_KEY = b"tensorbandits"  # of what a file says of itself, in the metadata of its schema
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # as the decision service has it
_WRITER = re.compile(r"[A-Za-z0-9_]{1,64}")
_HOUR_FOLDER = re.compile(r"hour=(\d{4}-\d\d-\d\dT\d\d)")
_MOMENT = pa.timestamp("us", tz="UTC")
_CELL = pa.list_(pa.int32())
_COLUMNS: dict[str, list[tuple[str, Any]]] = {
    "decisions": [
        ("id", pa.string()),  # the token
        ("time", _MOMENT),  # when it was decided
        ("snapshot", pa.int64()),  # the version of the published snapshot
        ("draw", pa.int64()),  # null if no posterior draw decided
        ("by", pa.string()),  # policy, floor, holdout or caller
        ("propensity", pa.float64()),  # null if nobody knows it
        ("policy_chance", pa.float64()),
        ("holdout_chance", pa.float64()),
        ("cell", _CELL),
    ],
    "rewards": [
        ("id", pa.string()),
        ("time", _MOMENT),  # when the reward was told
        ("reward", pa.float64()),
        ("amend", pa.bool_()),  # whether it replaces one that was told before
        ("decided", _MOMENT),  # this and what follows is what the verified token says of the decision
        ("cell", _CELL),
        ("by", pa.string()),
        ("propensity", pa.float64()),
    ],
}


class Origin(NamedTuple):
    """What a file of records says of itself."""

    kind: Kind
    version: int
    bandit: str
    uid: str  # of this bandit, in hexadecimal: one that is made anew under the same name has another

    @classmethod
    def of(cls, schema: Any) -> Self | None:
        """Return what the schema of a file says, or ``None`` if it says nothing that can be understood."""
        try:
            said = json.loads((schema.metadata or {})[_KEY])
            kind, version, bandit, uid = (said[name] for name in cls._fields)
        except (KeyError, TypeError, ValueError):
            return None
        typed = isinstance(kind, str) and isinstance(bandit, str) and isinstance(uid, str) and type(version) is int
        return cls(kind, version, bandit, uid) if typed else None


def columns(kind: Kind) -> list[str]:
    """Return the names of the columns of a kind of records.

    >>> columns("rewards")
    ['id', 'time', 'reward', 'amend', 'decided', 'cell', 'by', 'propensity']
    """
    return [name for name, _ in _COLUMNS[check_kind(kind)]]


def schema(kind: Kind, bandit: str, uid: str) -> Any:
    """Return the columns of a kind of records, with what a file says of itself.

    >>> schema("rewards", "offers", "00ff").names
    ['id', 'time', 'reward', 'amend', 'decided', 'cell', 'by', 'propensity']
    """
    said = Origin(check_kind(kind), VERSION, check_bandit_name(bandit), uid)
    return pa.schema(_COLUMNS[kind]).with_metadata({_KEY: json.dumps(said._asdict())})


def table(kind: Kind, columns: Mapping[str, Sequence[Any]], bandit: str, uid: str) -> Any:
    """Return records as a table; columns are given by name, times as datetimes or in microseconds since 1970.

    >>> when = datetime(2026, 11, 19, 6, tzinfo=UTC)
    >>> reward = {"id": ["a"], "time": [when], "reward": [1.0], "amend": [False]}
    >>> decision = {"decided": [when], "cell": [[0, 3]], "by": ["policy"], "propensity": [0.5]}
    >>> table("rewards", reward | decision, "offers", "00ff").num_rows
    1
    """
    wanted = schema(kind, bandit, uid)
    if missing := [name for name in wanted.names if name not in columns]:
        raise ValueError(f"{kind} lack the columns {missing}; give {wanted.names}")
    return pa.table({name: columns[name] for name in wanted.names}, schema=wanted)


def packed(records: Any) -> bytes:
    """Return a table of records as the content of a Parquet file."""
    content = io.BytesIO()
    pq.write_table(records, content, compression="zstd", coerce_timestamps="us")
    return content.getvalue()


def hour_of(moment: float) -> str:
    """Return the hour that a moment, in seconds since 1970, is in, as folders name it.

    >>> hour_of(1_795_070_523.9)
    '2026-11-19T06'
    """
    return datetime.fromtimestamp(moment // HOUR * HOUR, UTC).strftime("%Y-%m-%dT%H")


def hour_start(hour: str) -> int:
    """Return when an hour begins, in seconds since 1970.

    >>> hour_of(hour_start("2026-11-19T06"))
    '2026-11-19T06'
    """
    return int(datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp())


def folder(kind: Kind, bandit: str, hour: str) -> str:
    """Return the folder of an hour's records, below the root of the lake.

    >>> folder("rewards", "offers", "2026-11-19T06")
    'rewards/bandit=offers/hour=2026-11-19T06'
    """
    return f"{check_kind(kind)}/{bandit_folder(bandit)}/hour={hour}"


def bandit_folder(bandit: str) -> str:
    """Return the name of the folder of a bandit's hours."""
    return f"bandit={check_bandit_name(bandit)}"


def hour_in(folder: str) -> str | None:
    """Return the hour that the name of a folder says, or ``None``.

    >>> hour_in("hour=2026-11-19T06"), hour_in("hour=today")
    ('2026-11-19T06', None)
    """
    found = _HOUR_FOLDER.fullmatch(folder)
    if found is None:
        return None
    try:
        hour_start(found[1])
    except ValueError:
        return None
    return found[1]


def file_name(writer: str, number: int) -> str:
    """Return the name of a writer's next file: ``writer`` is unlike that of any other process.

    >>> file_name("7f3a", 12)
    'part-7f3a-00000012.parquet'
    """
    if _WRITER.fullmatch(writer) is None:
        raise ValueError(f"the writer is {writer!r}; give at most 64 letters, digits and underscores")
    return f"part-{writer}-{number:08d}.parquet"


def is_records(name: str) -> bool:
    """Say whether a file has the name of one with records; others, such as half-written ones, are passed over.

    >>> is_records("part-7f3a-00000012.parquet"), is_records(".part-7f3a-00000012.parquet.writing")
    (True, False)
    """
    return name.startswith("part-") and name.endswith(".parquet")


def check_bandit_name(bandit: str) -> str:
    """Return the name of a bandit, which becomes the name of a folder."""
    if not isinstance(bandit, str) or _NAME.fullmatch(bandit) is None:
        raise ValueError(
            f"the bandit's name is {bandit!r}; give at most 100 letters, digits, dots, hyphens and underscores, "
            "the first of them a letter or a digit"
        )
    return bandit


def check_kind(kind: str) -> Kind:
    """Return a kind of records."""
    if kind not in get_args(Kind):
        raise ValueError(f"the kind of records is {kind!r}; allowed are {', '.join(get_args(Kind))}")
    return kind  # type: ignore[return-value]
