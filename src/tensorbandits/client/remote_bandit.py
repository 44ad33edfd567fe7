"""Looking after a bandit of the service: what it believes, levels, rules and settings, logs in and out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from tensorbandits.bandit.intervals import Looks
from tensorbandits.bandit.reporting import form_of
from tensorbandits.bandit.settings import written_setting
from tensorbandits.bandit.uplift import Uplift
from tensorbandits.bandit.warm_start import WarmStart
from tensorbandits.base.frames import Backend, check_backend
from tensorbandits.client import files, wire
from tensorbandits.client.decisions import Decisions
from tensorbandits.data.cleaning import Clean
from tensorbandits.space.labels import Label, read

_PAGE = 1_000  # changes that are asked for at once


@dataclass(frozen=True, repr=False)
class Believed:
    """What a bandit of the service believes, as data frames, as :meth:`Bandit.explain` has them.

    ``said`` is the whole answer of the service.
    """

    effects: Any
    interactions: Any
    alike: Any
    arms: Any
    words: str
    said: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.words


@dataclass(frozen=True, repr=False)
class Examined:
    """Which structure the rewards of a bandit speak for, in ``structure``, and which levels have ``moved``.

    ``said`` is the whole answer of the service.
    """

    words: str
    structure: Any
    moved: tuple[Mapping[str, Any], ...]
    said: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.words


class AsyncRemoteBandit(Decisions):
    """A bandit of the service whose methods are awaited; from :meth:`AsyncClient.bandit`."""

    def __repr__(self) -> str:
        return f"AsyncRemoteBandit({self.name!r} at {self._exchange.url})"

    # Seeing what was learned.

    async def detail(self) -> dict[str, Any]:
        """Return how the bandit is made: modes, levels, rules and settings; and its numbers so far."""
        said: dict[str, Any] = await self._exchange.call(wire.get(self._path()))
        return said

    async def explain(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        level: float = 0.9,
        arms: int = 10,
        backend: Backend | None = None,
        **labels: Label | None,
    ) -> Believed:
        """Return what is believed: main effects, interactions, levels that are alike, best arms; as frames.

        The arguments are those of :meth:`tensorbandits.Bandit.explain`.
        """
        check_backend(backend)
        body: dict[str, Any] = {"level": level, "arms": arms}
        if context or labels:
            body["context"] = wire.merged(context, labels, numbers=True)
        said = await self._exchange.call(wire.post(self._path("explain"), body))
        frames = {
            name: files.from_records(said[name], backend) for name in ("effects", "interactions", "alike", "arms")
        }
        return Believed(**frames, words=said["words"], said=said)

    async def diagnose(self) -> Examined:
        """Return which structure the rewards speak for, and which levels have moved; it takes some seconds."""
        said = await self._exchange.call(wire.post(self._path("diagnose"), {}))
        return Examined(said["words"], said["structure"], tuple(said["moved"]), said)

    async def history(self, mode: str | None = None, *, backend: Backend | None = None) -> Any:
        """Return decisions and rewards over time as a data frame, the holdout's apart; of each level if given a mode.

        It is that of :meth:`tensorbandits.Bandit.history`.
        """
        check_backend(backend)
        said = await self._exchange.call(wire.get(self._path("history"), mode=mode))
        return files.from_records(said["history"], backend)

    async def uplift(self, *, over: str | None = None, level: float = 0.95, intervals: Looks = "anytime") -> Uplift:
        """Return how much more the bandit's decisions earn than the holdout's, or than those of your own rule.

        It is that of :meth:`tensorbandits.Bandit.uplift`.
        """
        request = wire.get(self._path("view", "uplift"), over=over, level=level, intervals=intervals)
        return Uplift.from_dict(await self._exchange.call(request))

    async def events(self, *, after: int = 0, limit: int | None = None, newest: bool = False) -> list[dict[str, Any]]:
        """Return events of the log that come after a number, in their order; or the newest of all, newest first."""
        query = {"after": after, "limit": limit, "newest": "true" if newest else None}
        said = await self._exchange.call(wire.get(self._path("events"), **query))
        return list(said["events"])

    async def changes(
        self,
        *,
        kinds: Sequence[str] = (),
        actor: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[dict[str, Any]]:
        """Return what was changed, apart from decisions and rewards, newest first: who, when, what, before and after.

        It is that of :meth:`tensorbandits.Bandit.changes`; actors are the names of keys.
        """
        query: dict[str, Any] = {"kind": list(kinds) or None, "actor": actor, "since": since, "until": until}
        found: list[dict[str, Any]] = []
        before: int | None = None
        while True:
            said = await self._exchange.call(wire.get(self._path("changes"), **query, before=before, limit=_PAGE))
            found += said["changes"]
            if (before := said["next"]) is None:
                return found

    async def export(
        self,
        path: str | PathLike[str] | None = None,
        *,
        what: str = "decisions",
        after: int | None = None,
        backend: Backend | None = None,
    ) -> Any:
        """Write decisions with their rewards, or all ``"events"``, to a Parquet file, and return its path.

        Without a path they come as a data frame of ``backend``, which must fit into memory. ``after`` is the sequence
        number after which to begin.
        """
        check_backend(backend)
        request = wire.get(self._path("export"), what=what, after=after)
        if path is None:
            answer = await self._exchange.answer(request)
            return files.from_parquet(answer.body, backend)
        await self._exchange.answer(request._replace(into=Path(path)))
        return Path(path)

    async def report(self, path: str | PathLike[str], *, since: str = "7d") -> Path:
        """Write a report for people who were not there, as one HTML or Markdown file; return its path.

        ``since`` is a duration before now, such as ``"7d"``, or a date, such as ``"2026-11-01"``.
        """
        request = wire.get(self._path("report"), since=since, format=form_of(path))
        await self._exchange.answer(request._replace(into=Path(path)))
        return Path(path)

    # Levels, rules and settings.

    async def add_level(
        self,
        mode: str,
        label: Label,
        *,
        like: Label | None = None,
        rewards: float | None = None,
        features: Any = None,
    ) -> None:
        """Give a mode another level, which starts from the prior, ``like`` another one, or from its ``features``.

        The arguments are those of :meth:`tensorbandits.Bandit.add_level`.
        """
        more = {"like": None if like is None else wire.one_label(mode, like), "rewards": rewards}
        more["features"] = None if features is None else wire.values(mode, features)
        given = {name: value for name, value in more.items() if value is not None}
        await self._write({"mode": mode, "label": wire.one_label(mode, label), **given}, "levels")

    async def describe(self, mode: str, features: Any, *, anew: bool = False) -> None:
        """Say what levels of a mode are like, from now on.

        The arguments are those of :meth:`tensorbandits.Bandit.describe`.
        """
        levels = None if features is None else wire.described(mode, features)
        await self._write({"mode": mode, "levels": levels, **({"anew": True} if anew else {})}, "features")

    async def features(self, mode: str) -> dict[Label, dict[str, Any]]:
        """Return the features of the levels of a mode, as they are now; what is missing is left out."""
        said = await self._exchange.call(wire.get(self._path("features"), mode=mode))
        return {read(one["label"]): one["features"] for one in said["levels"]}

    async def retire_level(self, mode: str, label: Label) -> None:
        """Choose a level no more; rewards of decisions that have it are still taken."""
        await self._write({"mode": mode, "label": wire.one_label(mode, label)}, "levels", "retire")

    async def restore_level(self, mode: str, label: Label) -> None:
        """Choose a retired level again, with all that was learned of it."""
        await self._write({"mode": mode, "label": wire.one_label(mode, label)}, "levels", "restore")

    async def split_region(self, mode: str, region: str, at: float | None = None, *, number: str | None = None) -> None:
        """Split a region of a mode of numbers in two.

        The arguments are those of :meth:`tensorbandits.Bandit.split_region`.
        """
        more = {"at": at, "number": number}
        given = {name: value for name, value in more.items() if value is not None}
        await self._write({"mode": mode, "region": region, **given}, "regions", "split")

    async def forbid(self, labels: Mapping[str, Label] | None = None, /, **named: Label) -> None:
        """Record a rule: arms with all of these labels may not be chosen. A rule that is there already is left."""
        await self._write({"forbid": wire.merged(labels, named)}, "rules")

    async def allow(self, labels: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Record a rule: where all the single labels are met, of the modes with a list only the listed may be chosen.

        With single labels only, it takes back what :meth:`forbid` was told in the same words.
        """
        await self._write({"allow": wire.merged(labels, named)}, "rules")

    async def remove_rule(self, rule: Mapping[str, Mapping[str, Any]]) -> None:
        """Take back a rule, given as :meth:`detail` lists it."""
        await self._write(wire.rule_body(rule), "rules", "remove")

    async def change(self, /, **settings: Any) -> dict[str, Any]:
        """Change settings, as :meth:`tensorbandits.Bandit.change` does; return the new :meth:`detail`."""
        given = {name: written_setting(name, value) for name, value in settings.items()}
        return await self._write(given, method="PATCH")

    async def _write(self, body: Mapping[str, Any], *place: str, method: str = "POST") -> dict[str, Any]:
        """Send a change to a place of the bandit, and return what the answer says."""
        said: dict[str, Any] = await self._exchange.call(wire.write(self._path(*place), body, method=method))
        return said

    # Logs in, and old events folded.

    async def tell_log(
        self,
        frame: Any,
        reward: str,
        *,
        trials: str | None = None,
        columns: Mapping[str, str] | None = None,
        fixed: Mapping[str, Label] | None = None,
        unknown: str | None = None,
        missing: str = "error",
        clean: Clean | None = None,
        weight: float = 1.0,
        features: Mapping[str, Sequence[str]] | None = None,
    ) -> WarmStart:
        """Learn the rewards of a log, a data frame of any kind with one row per event; all of them, or none.

        The arguments are those of :meth:`tensorbandits.Bandit.tell_log`. The log goes as one Parquet file, which must
        not be larger than the service takes: leave out columns that are not needed, and send long logs in parts. So
        ``features`` are names of its columns, by mode.
        """
        request = wire.upload(
            self._path("import"),
            files.to_parquet(frame, clean, columns),
            reward=reward,
            trials=trials,
            columns=None if columns is None else json.dumps(dict(columns)),
            fixed=None if fixed is None else json.dumps(wire.merged(fixed, {})),
            unknown=unknown,
            missing=None if missing == "error" else missing,
            weight=None if weight == 1.0 else weight,
            features=None if features is None else json.dumps({mode: list(some) for mode, some in features.items()}),
        )
        said = await self._exchange.call(request)
        return _warm_start(said)

    async def fold(self, before: int | None = None) -> dict[str, Any]:
        """Fold events up to a sequence number, or all, into the state, and delete them; export them first."""
        return await self._write({"before": before}, "fold")

    async def forget(
        self, *, decision: str | None = None, subject: str | None = None, why: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Remove a person's data: of one decision by its id, or of all that were made for a ``subject``.

        Return how many decisions and events that are. What was counted and learned stays. ``why`` stays in the log: do
        not name the person in it. With ``dry_run`` nothing is removed. Doing it again changes nothing.
        """
        given = {"decision": decision, "subject": subject, "why": why, "dry_run": dry_run}
        return await self._write({name: value for name, value in given.items() if value is not None}, "forget")


def _warm_start(said: Mapping[str, Any]) -> WarmStart:
    return WarmStart(
        rewards=math.nan if said["rewards"] is None else said["rewards"],  # of a log that an earlier try has told
        cells=said["cells"] or 0,
        rows=said.get("rows"),
        dropped=said.get("dropped") or {},
        skipped=said.get("skipped") or {},
        added={mode: tuple(map(read, labels)) for mode, labels in (said.get("added") or {}).items()},
    )
