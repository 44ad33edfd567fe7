"""Publishing a bandit, so that other processes decide from what it has learned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

from tensorbandits.bandit.published import DRAWS, UID_BYTES, PublishedSnapshot, check_name, check_uid
from tensorbandits.bandit.publishing import place_of
from tensorbandits.bandit.running import Running
from tensorbandits.base.checks import check_count, check_flag


class PublishCount(NamedTuple):
    """Who a bandit is to those who decide from its snapshots, and how many it has published."""

    uid: str
    version: int = 0

    @classmethod
    def new(cls) -> PublishCount:
        """Return that of a new bandit."""
        return cls(os.urandom(UID_BYTES).hex())

    @classmethod
    def read(cls, state: Any) -> PublishCount:
        """Return that of a saved bandit; one that was saved before there were snapshots is a new one."""
        if state is None:
            return cls.new()
        if not isinstance(state, Mapping) or set(state) != {"uid", "version"}:
            raise ValueError(f"published is {state!r}; it has the uid of a bandit and the version of its last snapshot")
        return cls(check_uid(state["uid"]), check_count(state["version"], "version", 0))


class Sharing(Running):
    """Publishes snapshots; :class:`~tensorbandits.Bandit` has these methods."""

    _published: PublishCount

    @property
    def uid(self) -> str:
        """Who this bandit is to deciders, wherever it is loaded; one that is made anew under its name has another."""
        return self._published.uid

    def snapshot(self, *, name: str = "bandit", draws: int | None = None) -> PublishedSnapshot:
        """Return all that deciding needs, as it is now, for :class:`~tensorbandits.Decider`; for policies that sample.

        It waits for the learner. ``name`` is the bandit's, ``draws`` how many posterior draws it decides from, by
        default 64: more than a bandit's own, as many more decisions are made from one snapshot, and are to differ.

        >>> from tensorbandits import Bandit, Space
        >>> bandit = Bandit(Space({"offer": ["a", "b"]}), reward="bernoulli", seed=0)
        >>> bandit.snapshot(name="offers")
        PublishedSnapshot('offers', version 1, of event 0; Space(offer: 2), 64 draws of TensorThompsonSampling)
        """
        check_name(name)
        self._do(None)
        uid, before = self._published
        state = self._core.state
        event = state.seq or int(state.rewards)
        found = PublishedSnapshot.of(
            self._core,
            name=name,
            uid=uid,
            version=before + 1,
            event=event,
            time=self._now(),
            draws=DRAWS if draws is None else draws,
        )
        self._published = PublishCount(uid, max(self._published.version, found.version))
        return found

    def publish(
        self,
        address: str | PathLike[str],
        *,
        name: str = "bandit",
        draws: int | None = None,
        replace: bool = False,
    ) -> PublishedSnapshot:
        """Publish a snapshot, for deciders in other processes, and return it.

        ``address`` is a folder, any address of fsspec such as ``"s3://bucket/offers"``, or Redis:
        ``"redis://host:6379/0?key=offers"``. It has snapshots of one bandit only, unless one asks to ``replace`` those
        of another. ``name`` and ``draws`` are those of :meth:`snapshot`.

        >>> import tempfile
        >>> from tensorbandits import Bandit, Space
        >>> bandit = Bandit(Space({"offer": ["a", "b"]}), reward="bernoulli", seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit.publish(folder, name="offers").version, bandit.publish(folder, name="offers").version
        (1, 2)
        """
        place, check = place_of(address), check_flag(replace, "replace")
        found = place.publish(self.snapshot(name=name, draws=draws), replace=check)
        self._published = PublishCount(found.uid, max(self._published.version, found.version))
        return found
