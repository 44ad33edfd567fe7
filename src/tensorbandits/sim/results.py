"""Results on disk: one Parquet file per run, kept apart by everything that decides it.

A results folder holds

- ``comparison.json``: the last comparison, with its settings and the file of each of its runs,
- ``runs/<name>/<replication>.parquet``: the regret of a run, and beside it ``settings.json`` in words,
- ``times.jsonl``: the seconds of each run, apart, because they differ from time to time.

``<name>`` ends in a digest of the settings and of the code, so that other settings never meet in one place. Only the
process that compares writes here, each file under another name first: whatever is there was whole once. Each file and
each line holds a checksum of what it says, because disks and people change bytes: a run whose file or time is damaged
is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tensorbandits.base.checks import check_installed
from tensorbandits.sim.jobs import Job, Run, one_thread, points
from tensorbandits.sim.plan import Key, Plan, circumstances
from tensorbandits.tensor.tucker import Floats, Ints

# The keys under which a file holds the digest of its run, and its own.
_DIGEST, _CHECKSUM = b"tensorbandits", b"checksum"


class ResultsFolder:
    """The results of one comparison in a folder: what is there already, what is missing, and where more goes.

    >>> import tempfile
    >>> from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe
    >>> job = Job("world", "ucb", 0, PaperWorld(p=2), PolicyRecipe("ucb"), horizon=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = ResultsFolder(folder, [job])
    ...     results.write(Run("world", "ucb", 0, np.array([1, 2, 3]), np.array([0.5, 1.0, 1.5]), 0.1))
    ...     [run.final for run in ResultsFolder(folder, [job]).kept()], read_runs(folder)[0].seconds
    ([1.5], 0.1)
    """

    def __init__(self, folder: str | PathLike[str], jobs: Sequence[Job]) -> None:
        check_installed("keeping results in a folder", "pyarrow", "threadpoolctl")
        self.folder = _check_folder(folder)
        self._jobs = {(job.environment, job.policy, job.replication): job for job in jobs}
        with one_thread():  # as in the workers: more threads may round otherwise
            plan = Plan(jobs)
        self._entries = plan.entries
        for name, settings in plan.settings.items():
            place = self.folder / "runs" / name
            place.mkdir(parents=True, exist_ok=True)
            if _read_json(place / "settings.json") is None:
                _write_json(place / "settings.json", settings | circumstances())
        replications = len({job.replication for job in jobs})
        listing = {"runs": self._listing()}
        _write_json(self.folder / "comparison.json", plan.summary(replications) | circumstances() | listing)
        self._runs = _read(self.folder, self._entries, jobs[0].horizon)
        self._warn([file for key, (file, _) in self._entries.items() if key not in self._runs])

    def _warn(self, files: Sequence[str]) -> None:
        """Say which of the files that are there are not taken for results."""
        damaged = [file for file in files if (self.folder / file).exists()]
        if damaged:
            more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
            warnings.warn(
                f"{len(damaged)} of the {len(self._entries)} runs in {self.folder} are damaged, in their files or in "
                f"times.jsonl, and are made again: {', '.join(damaged[:3])}{more}",
                stacklevel=5,
            )

    def kept(self) -> list[Run]:
        """Return the runs of this comparison that are there already."""
        return list(self._runs.values())

    def missing(self) -> list[Job]:
        """Return the jobs whose runs are not there, or are damaged."""
        return [job for key, job in self._jobs.items() if key not in self._runs]

    def write(self, run: Run) -> None:
        """Put a finished run in its place, whole or not at all."""
        import pyarrow
        from pyarrow import parquet

        file, known_by = self._entries[run.environment, run.policy, run.replication]
        count = len(run.rounds)
        columns = {
            "environment": pyarrow.array([run.environment] * count, pyarrow.string()),
            "policy": pyarrow.array([run.policy] * count, pyarrow.string()),
            "replication": pyarrow.array(np.full(count, run.replication), pyarrow.int64()),
            "round": pyarrow.array(run.rounds, pyarrow.int64()),
            "regret": pyarrow.array(run.regret, pyarrow.float64()),
        }
        table = pyarrow.table(columns)
        table = table.replace_schema_metadata({_DIGEST: known_by, _CHECKSUM: _checksum(table.to_pydict())})
        path = self.folder / file
        aside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            parquet.write_table(table, aside, compression="zstd", write_page_checksum=True)
            # The time first: a run that is there without it would stay without.
            _append_line(self.folder / "times.jsonl", _with_checksum({"file": file, "seconds": run.seconds}))
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)

    def _listing(self) -> list[dict[str, Any]]:
        """The runs of the comparison by environment, policy and replication, as they were given."""
        worlds, policies = (list(dict.fromkeys(key[at] for key in self._entries)) for at in (0, 1))
        keys = sorted(self._entries, key=lambda key: (worlds.index(key[0]), policies.index(key[1]), key[2]))
        names = ("environment", "policy", "replication", "file", "digest")
        return [dict(zip(names, (*key, *self._entries[key]), strict=True)) for key in keys]


def read_runs(folder: str | PathLike[str]) -> list[Run]:
    """Return the runs of the last comparison in a results folder."""
    check_installed("reading results from a folder", "pyarrow")
    place = Path(folder)
    if not (place / "comparison.json").exists():
        raise FileNotFoundError(
            f"{place} holds no comparison; give the folder that was given to compare(.., folder=..)"
        )
    said = _read_json(place / "comparison.json")
    if said is None:
        raise ValueError(
            f"comparison.json in {place} is damaged; run the same comparison again: it keeps its runs and mends it"
        )
    entries = {
        (entry["environment"], entry["policy"], entry["replication"]): (entry["file"], entry["digest"])
        for entry in said["runs"]
    }
    found = _read(place, entries, said["horizon"])
    if len(found) < len(entries):
        raise ValueError(
            f"{len(entries) - len(found)} of the {len(entries)} runs of the comparison in {place} are missing or "
            "damaged; run the same comparison again: it keeps the others and makes these"
        )
    return list(found.values())


def _read(folder: Path, entries: Mapping[Key, tuple[str, str]], horizon: int) -> dict[Key, Run]:
    """The runs that are there, whole, with their times, and made by what the entries say."""
    seconds, rounds = _read_times(folder / "times.jsonl"), points(horizon)
    runs = {}
    for key, (file, known_by) in entries.items():
        curve = _read_file(folder / file, known_by)
        if curve is not None and file in seconds and np.array_equal(curve[0], rounds):
            runs[key] = Run(*key, *curve, seconds[file])
    return runs


def _read_file(path: Path, known_by: str) -> tuple[Ints, Floats] | None:
    """The rounds and regrets of a file; ``None`` without the file, or with one that is damaged or of another run."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            said = file.schema_arrow.metadata or {}
            if said.get(_DIGEST) != known_by.encode():
                return None
            table = file.read(use_threads=False)
        if said.get(_CHECKSUM) != _checksum(table.to_pydict()).encode():
            return None
        return table["round"].to_numpy(), table["regret"].to_numpy()
    except Exception:  # there is no saying what a wrong byte makes of a file
        return None


def _read_times(path: Path) -> dict[str, float]:
    """The seconds by file; a damaged line is passed over."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return {entry["file"]: entry["seconds"] for entry in map(_whole, lines) if entry is not None}


def _read_json(path: Path) -> dict[str, Any] | None:
    """What a file says, or ``None`` without the file or with a damaged one."""
    return _whole(path.read_bytes()) if path.exists() else None


def _whole(text: bytes) -> dict[str, Any] | None:
    """The object that a text says, if it is the one that the checksum in it was made for."""
    try:
        said: dict[str, Any] = json.loads(text)
        return said if said.pop(_CHECKSUM.decode()) == _checksum(said) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(json.dumps(content))  # as it will be read
    return said | {_CHECKSUM.decode(): _checksum(said)}


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def _append_line(path: Path, entry: Mapping[str, Any]) -> None:
    """Add a line in one write, which does not mingle with those of another process; start afresh after half a line."""
    with path.open("ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        cut = end > 0 and (file.seek(end - 1), file.read(1))[1] != b"\n"
        file.write((b"\n" if cut else b"") + json.dumps(entry).encode() + b"\n")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file, whole or not at all, with a line for each key and for each entry of a list of objects."""
    lines = [f"{json.dumps(key)}: {_json_lines(value)}" for key, value in _with_checksum(content).items()]
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    aside.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    os.replace(aside, path)


def _json_lines(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n]"
    return json.dumps(value)


def _check_folder(folder: str | PathLike[str]) -> Path:
    place = Path(folder)
    try:
        (place / "runs").mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"folder is {place}, which is or lies in a file; give a folder") from None
    except OSError as error:
        raise type(error)(f"folder is {place}, which cannot be made ({error.strerror}); give another folder") from None
    return place
