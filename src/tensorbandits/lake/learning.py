"""Learning from a lake: hours whose files or windows have changed are joined anew, all are added up, and published.

A round may be stopped at any point: the next one does what is missing, and comes to the same ledger, to the bit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from tensorbandits.bandit.bandit import Bandit
from tensorbandits.bandit.spans import Span
from tensorbandits.base.checks import check_flag
from tensorbandits.base.folders import Folder
from tensorbandits.lake import footers, records
from tensorbandits.lake.engines import JoinEngine, engine_of
from tensorbandits.lake.files import hours_of
from tensorbandits.lake.footers import Wanted
from tensorbandits.lake.hours import HourSums, digest_of, due_by, hours_of_rows, micros, settings_of
from tensorbandits.lake.join import Meaning, join_sql, unusable_sql
from tensorbandits.lake.kept import Keeping, Total, alone
from tensorbandits.lake.records import Kind
from tensorbandits.ledger import Ledger

_LOG = logging.getLogger("tensorbandits.lake")
_BATCH = 256_000_000  # bytes of files that are joined at once
_CLOCK = 60.0  # seconds by which clocks may differ before that is said


@dataclass(frozen=True)
class LearnedRound:
    """What a round of learning found.

    ``joined`` are hours that were joined anew; ``counts`` are of all hours, see
    :class:`~tensorbandits.lake.hours.HourSums`. ``beyond`` are rewards of levels that the bandit does not have: they
    count as soon as it has them. ``makers`` has the number of rewards and their sum, by who decided. ``refused`` says
    why files were left out, by path, and ``kept`` names hours of which files are gone: what was learned of them stays.
    ``version`` is that of the snapshot that was published, ``None`` if there was nothing new. ``behind`` is how many
    seconds the clock is behind the time up to which an earlier round looked at windows, by a clock that was ahead.
    """

    joined: Sequence[str]
    hours: int
    counts: Mapping[str, int]
    makers: Mapping[str, tuple[int, float]]
    beyond: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    kept: Sequence[str] = ()
    version: int | None = None
    behind: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = self.counts
        parts = [f"joined {len(self.joined):,} of {self.hours:,} hours in {self.seconds:.1f} s"]
        parts.append(
            f"{counts['decisions']:,} decisions, {counts['rewards']:,} rewards, {counts['defaults']:,} defaults"
        )
        said = {
            "wait for a reward": counts["waiting"],
            "rewards of decisions that were not logged": counts["unlogged"],
            "repeated rows": counts["repeated_decisions"] + counts["repeated_rewards"],
            "unusable rows": counts["unusable_decisions"] + counts["unusable_rewards"],
            "rewards of levels that are not known": self.beyond,
            "files left out": len(self.refused),
            "hours of which files are gone": len(self.kept),
        }
        parts += [f"{many:,} {what}" for what, many in said.items() if many]
        if self.behind > _CLOCK:
            parts.append(f"the clock is {self.behind:,.0f} s behind that of an earlier round")
        parts.append("nothing new" if self.version is None else f"published version {self.version}")
        return "; ".join(parts)


class LakeLearner:
    """Learns a bandit from a lake, round after round.

    Parameters
    ----------
    path : the file of a bandit, as :meth:`tensorbandits.Bandit.save` wrote it. It is saved there again after each round
        that learned something, and read again when somebody else has changed it: levels, rules and settings follow.
    name : the name that decisions and rewards have in the lake.
    decisions, rewards : the folders of both, or URLs that fsspec knows, such as ``"lake/decisions"``.
    publish : where snapshots go; ``None`` for nowhere.
    kept : a folder for what is kept between rounds; by default beside the file of the bandit.
    engine : ``"duckdb"``, ``"spark"``, or an engine that was made already.
    look_back : how long ago hours may have begun for new files of them to be looked for; all, in the first round.
    draws : how many posterior draws a snapshot has; 64 if not given.
    foreign : whether files of other writers are taken, such as Spark's, which do not say of which bandit they are; that
        of their folder is believed then.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        name: str,
        decisions: str | PathLike[str],
        rewards: str | PathLike[str],
        publish: str | PathLike[str] | None = None,
        kept: str | PathLike[str] | None = None,
        engine: str | JoinEngine = "duckdb",
        look_back: Any = None,
        draws: int | None = None,
        foreign: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path, self.name = Path(path), records.check_bandit_name(name)
        self.publishes, self.draws, self._clock = publish, draws, clock
        self.folders: dict[Kind, Folder] = {"decisions": Folder(decisions), "rewards": Folder(rewards)}
        for kind, folder in self.folders.items():
            _check_folder(folder, kind)
        self.kept = Folder(f"{self.path}.learned" if kept is None else kept)
        self.foreign = check_flag(foreign, "foreign")
        self.look_back = Span.of(look_back, "look_back")
        if self.look_back is not None and self.look_back.rounds:
            raise ValueError(f"look_back is {look_back!r}; give a duration, such as '2 days'")
        self._verdicts: dict[tuple[str, str, str], str | None] = {}  # why files are refused, by kind, path and mark
        self._published = False  # whether this learner has published what the bandit is now
        self._listed = False  # whether all hours were listed once
        self._load()
        self.engine = engine_of(engine) if isinstance(engine, str) else engine

    # The bandit.

    def _load(self) -> None:
        """Read the bandit, and what is kept of it."""
        self._mark = _mark(self.path)
        self.bandit = Bandit.load(self.path, clock=self._clock)
        self.meaning = _meaning(self.bandit, self.path)
        self.keeping = Keeping(self.kept, self.meaning.modes, self.bandit.uid)
        self._total: Total | None = None
        self._published = False

    @property
    def total(self) -> Total:
        """What all hours add up to by now."""
        if self._total is None:
            self._total = self.keeping.total()
        return self._total

    @property
    def ledger(self) -> Ledger:
        """The rewards of the lake as a ledger of the bandit's, without those that it was taught otherwise."""
        return self._inside()[0]

    def _inside(self) -> tuple[Ledger, int]:
        """The total as a ledger of the bandit's shape, and how many rewards are of levels that this does not have."""
        policy = self.bandit.policy
        inside, beyond = self.total.sums.inside(policy.shape)
        return inside.ledger(policy.shape, policy.ledger.kind), beyond

    # Rounds.

    def learn(self, now: float | None = None, *, hours: Sequence[str] | None = None) -> LearnedRound:
        """Learn what is new, publish it, and say what was found.

        ``hours`` are looked at, beside those in which windows have ended; all if not given. ``now`` is the time up to
        which windows have ended; it never goes back.
        """
        start = time.perf_counter()
        with alone(self.kept):
            if _mark(self.path) != self._mark:
                self._load()
            self._total = self.keeping.total()  # which another learner may have gone on with
            if not self._listed:
                self.keeping.prune(self._total)
            given = micros(self._clock() if now is None else now)
            moment = max(given, self.total.now)
            found = self._files(hours, moment)
            refused, kept, wanted = self._wanted(found, moment)
            joined = self._join(wanted, refused, moment)
            beyond = self._teach()
            version = self._publish()
        done = LearnedRound(
            joined=joined,
            hours=len(self.total.hours),
            counts=self.total.counts,
            makers=self.total.by_maker(),
            beyond=beyond,
            refused=refused,
            kept=kept,
            version=version,
            behind=(moment - given) / 1e6,
            seconds=time.perf_counter() - start,
        )
        _LOG.info("%s", done)
        for path, why in refused.items():
            _LOG.warning("left out %s: %s", path, why)
        return done

    def run(self, every: float, *, until: Callable[[], bool] = lambda: False) -> Iterator[LearnedRound]:
        """Yield a round each so many seconds, until told to stop; one that fails is said, and tried again."""
        while not until():
            start = time.monotonic()
            try:
                yield self.learn()
            except Exception:  # engines and file systems have errors of their own
                _LOG.exception("a round of learning failed; what was learned before stays, and it is tried again")
                self._total = None
            while not until() and (left := start + every - time.monotonic()) > 0.0:
                time.sleep(min(left, 0.2))

    def close(self) -> None:
        """Give back what the engine holds."""
        self.engine.close()

    # What is to be joined.

    def _files(self, hours: Sequence[str] | None, now: int) -> dict[str, dict[str, str]]:
        """The files of hours that may have something new, by kind and path, each with its mark."""
        found: dict[str, dict[str, str]] = {}
        for kind, folder in self.folders.items():
            for hour in hours_of(folder, self.name):
                if not self._is_looked_at(hour, now, hours):
                    continue
                place = f"{records.bandit_folder(self.name)}/hour={hour}"
                for file in folder.files(place):
                    if records.is_records(file.name):
                        found.setdefault(hour, {})[f"{kind}/{place}/{file.name}"] = file.mark
        self._listed = self._listed or hours is None
        return found

    def _is_looked_at(self, hour: str, now: int, hours: Sequence[str] | None) -> bool:
        """Whether new files of an hour are looked for, or windows of it have ended."""
        if due_by(self.total.hours.get(hour, ("", None))[1], now):
            return True
        if hours is not None:
            return hour in hours
        if self.look_back is None or not self._listed:
            return True
        return hour >= records.hour_of(now / 1e6 - self.look_back.length)

    def _wanted(
        self, found: Mapping[str, Mapping[str, str]], now: int
    ) -> tuple[dict[str, str], list[str], dict[str, dict[str, str]]]:
        """Files that are refused, hours of which files are gone, and the files of hours that are to be joined."""
        refused: dict[str, str] = {}
        gone: list[str] = []
        wanted: dict[str, dict[str, str]] = {}
        settings = settings_of(self.meaning)
        for hour, files in sorted(found.items()):
            digest, due = self.total.hours.get(hour, ("", None))
            if digest_of(files, settings) == digest and not due_by(due, now):
                continue  # all of them are in the total already, and need not be opened
            verdicts = {path: self._verdict(hour, path, mark) for path, mark in files.items()}
            refused |= {path: why for path, why in verdicts.items() if why is not None}
            usable = {path: mark for path, mark in files.items() if verdicts[path] is None}
            if digest_of(usable, settings) == digest and not due_by(due, now):
                continue
            before = self._before(hour, self.total)
            if before is not None and not set(before.files) <= set(usable):
                gone.append(hour)
            elif usable:
                wanted[hour] = usable
        return refused, gone, wanted

    def _verdict(self, hour: str, path: str, mark: str) -> str | None:
        kind, _, name = path.partition("/")
        key = (kind, name, mark)
        if key not in self._verdicts:
            wanted = Wanted(self.name, self.bandit.uid, self.foreign)
            checked = records.check_kind(kind)
            self._verdicts[key] = footers.refusal(self.folders[checked], name, checked, hour, wanted)
        return self._verdicts[key]

    # Joining.

    def _join(self, wanted: Mapping[str, Mapping[str, str]], refused: dict[str, str], now: int) -> list[str]:
        """Join hours anew, and keep the total; files that cannot be read to their ends are refused too."""
        for batch in _batches(wanted):
            fresh = self._fresh(batch, refused, now)
            total = self.total
            before = [one for hour in fresh if (one := self._before(hour, total)) is not None]
            for one in fresh.values():
                self.keeping.keep_hour(one)
            self._total = total.having(list(fresh.values()), before, now)
            self.keeping.keep_total(self._total)
            places = {(one.hour, one.digest, one.due) for one in fresh.values()}
            self.keeping.drop_hours([one for one in before if (one.hour, one.digest, one.due) not in places])
        return sorted(wanted)

    def _before(self, hour: str, total: Total) -> HourSums | None:
        """The sums of an hour that are in a total."""
        if hour not in total.hours:
            return None
        found = self.keeping.hour(hour, *total.hours[hour])
        if found is None:
            raise ValueError(
                f"what is kept of the hour {hour} is damaged or gone from {self.kept.address}; remove that folder, and "
                "all hours are joined anew"
            )
        return found

    def _fresh(self, batch: Mapping[str, Mapping[str, str]], refused: dict[str, str], now: int) -> dict[str, HourSums]:
        """Join some hours; if that fails, one by one, without files that are damaged inside."""
        try:
            return self._joined(batch, now)
        except Exception:
            if len(batch) > 1:
                return {hour: self._fresh({hour: files}, refused, now)[hour] for hour, files in batch.items()}
            ((hour, files),) = batch.items()
            whole = dict(files)
            for path in files:
                kind, _, name = path.partition("/")
                if (why := footers.damage(self.folders[records.check_kind(kind)], name)) is not None:
                    self._verdicts[kind, name, whole.pop(path)] = refused[path] = why
            if len(whole) == len(files):  # it is not the files
                raise
            return self._fresh({hour: whole}, refused, now)

    def _joined(self, batch: Mapping[str, Mapping[str, str]], now: int) -> dict[str, HourSums]:
        paths: dict[Kind, list[str]] = {"decisions": [], "rewards": []}
        for files in batch.values():
            for path in sorted(files):
                kind, _, name = path.partition("/")
                paths[records.check_kind(kind)].append(name)
        dialect = self.engine.dialect
        rows, unusable = (
            self.engine.query(sql, paths, self.folders)
            for sql in (join_sql(self.meaning, dialect, now), unusable_sql(self.meaning, dialect))
        )
        return hours_of_rows(rows, unusable, batch, self.meaning)

    # Teaching and publishing.

    def _teach(self) -> int:
        """Have the bandit learn the total, and save it; return how many rewards are of levels that it does not have."""
        ledger, beyond = self._inside()
        if self.bandit.bring_rewards(ledger):
            self._save()
            self._published = False
        return beyond

    def _save(self) -> None:
        self.bandit.save(self.path)
        self._mark = _mark(self.path)

    def _publish(self) -> int | None:
        if self._published or self.publishes is None:
            return None
        snapshot = self.bandit.publish(self.publishes, name=self.name, draws=self.draws)
        self._published = True
        self._save()  # with the number of the snapshot, and the chains as they are
        return snapshot.version


def _meaning(bandit: Bandit, path: Path) -> Meaning:
    """What decisions and rewards of a bandit mean; refuse what cannot be learned from a lake."""
    state, policy = bandit._core.state, bandit.policy
    book = state.book
    if not policy.traits.samples:
        raise ValueError(
            f"{path} has a {type(policy).__name__}, which does not sample: deciders cannot decide from it, nor can its "
            "rewards be replaced; use a policy that samples, such as 'thompson'"
        )
    if book.window is not None and book.window.rounds:
        raise ValueError(
            f"the window is {book.window.length:g} rounds, but many deciders have no common order; give it in time: "
            "bandit.change(window='10 min')"
        )
    if book.adds:
        raise ValueError("rewards of one decision add up here, but in a lake one counts; make a bandit without adds")
    if state.fading.half_life is not None:
        raise ValueError(
            "a half_life is given, but sums of a lake do not fade; take it back: bandit.change(half_life=None)"
        )
    window = None if book.window is None else micros(book.window.length)
    return Meaning(len(policy.shape), window, book.default, getattr(policy, "reward", None))


def _check_folder(folder: Folder, kind: Kind) -> None:
    """Refuse the root of a lake where the folder of a kind in it is meant."""
    if kind in (below := folder.folders()) and not any(name.startswith("bandit=") for name in below):
        raise ValueError(f"{folder.address!r} holds a folder {kind!r}; give that one: {folder.address}/{kind}")


def _batches(wanted: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, Mapping[str, str]]]:
    """Hours in pieces whose files are not too large together; an hour that is too large is a piece of its own."""
    batch: dict[str, Mapping[str, str]] = {}
    size = 0
    for hour, files in sorted(wanted.items()):
        more = sum(int(mark.partition(":")[0]) for mark in files.values())
        if batch and size + more > _BATCH:
            yield batch
            batch, size = {}, 0
        batch[hour], size = files, size + more
    if batch:
        yield batch


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes whenever a file is written anew."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
