"""A log folded into the state that a server must have, for the suites that compare the two."""

from __future__ import annotations

from collections.abc import Iterable

import tensorbandits as tb
from tensorbandits.bandit.core import Core
from tensorbandits.service.engine.loading import step, unpack
from tensorbandits.store import Event


def fold(core: Core | None, events: Iterable[Event]) -> Core | None:
    """Take in the next events of a log; ``None`` stands for the bandit before the first of them."""
    for event in events:
        core = step(core, event)
    return core


def ledger_of(core: Core | bytes) -> tb.Ledger:
    """Return what a state, or one that was kept as a snapshot, has learned from."""
    known = unpack(core) if isinstance(core, bytes) else core
    with known.learner.still():
        return known.policy.copy_ledger()
