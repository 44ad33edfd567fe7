"""A study of one log: what it holds, which structure it speaks for, how the policies fare on its rewards: an answer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from tensorbandits.base.checks import check_count
from tensorbandits.data.file import read_log
from tensorbandits.data.log import Log
from tensorbandits.data.profile import REWARDS, profile
from tensorbandits.model.rewards import Reward
from tensorbandits.report.page import Report, escape, write
from tensorbandits.sim.log_world import World
from tensorbandits.sim.where import Where
from tensorbandits.study import sections
from tensorbandits.study.answer import Answer
from tensorbandits.study.features import features_of, features_worth, worth_section, worth_words
from tensorbandits.study.lineup import lineup, play
from tensorbandits.study.relevance import relevance
from tensorbandits.study.remarks import remarks

__all__ = ["Answer", "lineup", "read_log", "study"]


def study(
    log: Log,
    folder: str | os.PathLike[str] = "out/study",
    *,
    context: Sequence[str | int] = (),
    policies: Sequence[Any] = (),
    rank: int | None = None,
    rounds: int = 5_000,
    rewards: int = REWARDS,
    replications: int = 10,
    min_count: int = 1,
    shrinkage: float | None = None,
    features: Mapping[str, Any] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    backend: str = "local",
    address: str | None = None,
    where: Where | None = None,
    progress: bool = False,
    command: str = "",
    source: str | os.PathLike[str] | None = None,
    say: Callable[[str], object] | None = None,
) -> tuple[Path, Path]:
    """Profile a log, let the policies play on its rewards, and write ``report.html`` and ``report.md`` into a folder.

    Parameters
    ----------
    log : what :func:`tensorbandits.data.from_log` or :func:`read_log` read.
    context, min_count, shrinkage : as for :meth:`tensorbandits.sim.World.of`.
    policies : who plays: names, ``"module:Class"``, texts such as ``"thompson:rank=3"``, classes or recipes; by default
        all that are registered and can play the log. Vectorized UCB always does, as the baseline.
    rank : what policies are told that need one, by default what :func:`tensorbandits.data.profile` suggests.
    rounds : of each run.
    rewards : how many a bandit will have, for which low rank is judged and a structure suggested.
    replications : the most runs of each policy. All run three times, and those that are neither clearly better or
        worse than the baseline by then nor clearly worse than the best, again.
    features : what the levels of some modes are like, as for :class:`tensorbandits.Space`: the study says whether they
        are worth collecting, for levels that are known and for new ones. Policies play without them.
    seed, n_jobs, backend, address, where, progress : as for :func:`tensorbandits.compare`. Finished runs are kept in
        ``folder/results``.
    command, source : what the report says of how it was made, and the file that the log was read from.
    say : gets the answer as plain text, for example ``print``.
    """
    start = time.perf_counter()
    check_count(rounds, "rounds")
    check_count(rewards, "rewards")
    most = check_count(replications, "replications")
    if rank is not None:
        check_count(rank, "rank")
    place = Where.chosen(where, n_jobs, backend, address)
    plain, shifted = (
        World.of(log, context, min_count=min_count, shrinkage=shrinkage, standardise=standardise)
        for standardise in (False, True)
    )
    lineup(shifted, rank or 1, rounds, policies)  # before any work, so that a mistake is known at once
    numbers = features_of(log, features)
    facts = profile(log, rewards=rewards, seed=seed)
    told = facts.suggested_rank if rank is None else rank
    structure = facts.suggested.kind if rank is None else "tucker"
    kind = cast(Reward, log.ledger.kind or facts.kind)
    playing, refused = lineup(shifted, told, rounds, policies, kind, structure)
    options = {"horizon": rounds, "seed": seed, "where": place, "progress": progress}
    comparison = play(playing, plain, shifted, Path(folder) / "results", most, **options)
    largest = facts.curve.points[-1].rewards
    matter = relevance(log.rewards(), facts.kind, facts.low_rank, largest, np.random.SeedSequence(seed))
    found = features_worth(log, facts, numbers, seed) if numbers else []
    said = [*remarks(log, matter), *worth_words(log, found)]
    answer = Answer.of(log, facts, plain, comparison, playing, said, source, shifted)
    if say is not None:
        say(answer.plain())
    report = [
        answer.section(),
        sections.contents(log, facts),
        sections.evidence(facts, told),
        *([worth_section(log, found)] if found else []),
        sections.cells(log, plain, (min_count, shrinkage)),
        sections.policies(comparison, log, plain, playing, refused, "gaussian" if log.ledger.kind else facts.kind),
        sections.how(playing, comparison, seed, time.perf_counter() - start, command),
    ]
    return write(Report(f"A study of {escape(log.reward)} by {', '.join(map(escape, log.modes))}", report), folder)
