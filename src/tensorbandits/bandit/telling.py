"""Telling a bandit: rewards of decisions, of arms, of logs and of other bandits, and what became of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorbandits.bandit import commands, warm_start
from tensorbandits.bandit.brought import Brought, same_rewards
from tensorbandits.bandit.decision import Decision, number_of
from tensorbandits.bandit.events import Imported
from tensorbandits.bandit.rows import reward_rows
from tensorbandits.bandit.running import Running
from tensorbandits.data.cleaning import Clean
from tensorbandits.data.log import Missing
from tensorbandits.ledger import Ledger
from tensorbandits.space.labels import Label


class Telling(Running):
    """Takes rewards by name; :class:`~tensorbandits.Bandit` has these methods."""

    _brought: Brought | None = None  # rewards that were added up elsewhere

    def tell(
        self,
        decision: str | Decision | None = None,
        reward: Any = None,
        *,
        amend: bool = False,
        add: bool = False,
        arm: Mapping[str, Label] | None = None,
        context: Mapping[str, Label] | None = None,
    ) -> None:
        """Learn the reward of a decision, by its id; the same again changes nothing.

        Another reward is refused, unless it is to ``amend`` the first or to ``add`` to it. Those who keep no ids tell
        ``arm`` and ``context`` instead, each time for one more reward.
        """
        if (decision is None) == (arm is None):
            raise TypeError("tell either the id of a decision and its reward, or arm=..., context=... and reward=...")
        if decision is None:
            if amend or add:
                raise ValueError("amend and add change the reward of a decision; give its id rather than an arm")
            for name, given in (("arm", arm), ("context", context)):
                if given is not None and not isinstance(given, Mapping):
                    raise TypeError(f"{name} is {given!r}; give labels by mode, such as {{'offer': 'a'}}")
            self._do(commands.TellCell(self.space.cell(context, **(arm or {})), reward))
            return
        if amend and add:
            raise ValueError("amend and add are both True; the reward takes the place of the first, or adds to it")
        if context is not None:
            raise TypeError("context is given beside the id of a decision, which has one already; leave it out")
        self._do(commands.Tell(number_of(decision), reward, amend, add))

    def tell_many(
        self, rewards: Any, *, amend: bool = False, add: bool = False, id: str = "id", reward: str = "reward"
    ) -> None:
        """Learn many rewards, in their order, as telling one by one would; or, if one is refused, none of them.

        ``rewards`` are pairs of a decision, or its id, and its reward; or a data frame of pandas, polars or pyarrow,
        with these in columns that are called ``id`` and ``reward``. ``amend`` and ``add`` are those of :meth:`tell`, of
        all rows. What has been told already changes nothing here either. An error names the first row that is refused,
        and the others.

        >>> from tensorbandits import Bandit, Space
        >>> import pyarrow as pa
        >>> bandit = Bandit(Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}), reward="bernoulli", seed=0)
        >>> one, two = bandit.ask_many([{}, {}])
        >>> bandit.tell_many([(one, 1), (two.id, 0)])
        >>> bandit.tell_many(pa.table({"id": [one.id, two.id], "clicked": [1, 1]}), reward="clicked", amend=True)
        >>> bandit.reward(two)
        1.0
        """
        if amend and add:
            raise ValueError("amend and add are both True; the reward takes the place of the first, or adds to it")
        rows = reward_rows(rewards, id, reward)
        self._do_many([commands.Tell(number_of(one), value, amend, add) for one, value in rows], "nothing was told")

    def tell_log(
        self,
        frame: Any,
        reward: str | None = None,
        *,
        trials: str | None = None,
        columns: Mapping[str, str] | None = None,
        fixed: Mapping[str, Label] | None = None,
        unknown: warm_start.Unknown | None = None,
        missing: Missing = "error",
        clean: Clean | None = None,
        weight: float = 1.0,
        features: Mapping[str, Any] | None = None,
    ) -> warm_start.WarmStart:
        """Learn the rewards of a log, a data frame of any kind with one row per event; all of them, or none.

        Parameters
        ----------
        frame, reward, trials, missing, clean : as for :func:`tensorbandits.data.from_log`. A
            :class:`~tensorbandits.data.Log` that was read already is given alone.
        columns : the columns of modes that are named otherwise there, by mode; times with a bin: ``"time:weekday"``.
        fixed : the label that all rewards have, of modes of which there is no column.
        unknown : what becomes of labels that the space does not know: ``"error"`` names them, ``"skip"`` leaves their
            rewards out, ``"add"`` adds them as levels, and ``"retire"`` as levels that are chosen no more: their
            rewards teach what features say. ``None`` is ``"retire"`` where features of both are known, and else
            ``"error"``.
        weight : what each reward counts for, above 0 and at most 1.
        features : what levels are like that the space does not know, by mode: names of columns of the log, or whatever
            :meth:`Space.describe <tensorbandits.Space.describe>` takes. Features that the space does not have are left
            out.

        A mode of numbers has a column for each of its numbers, or one with names of its regions. Regions that are still
        to be learned are learned from the log first, and stay learned should its rewards be refused.

        >>> import pyarrow as pa
        >>> from tensorbandits import Bandit, Space
        >>> bandit = Bandit(Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}), "ucb")
        >>> log = pa.table({"offer": ["a", "b", "c"], "clicks": [3, 1, 2], "shown": [90, 80, 70]})
        >>> bandit.tell_log(log, "clicks", trials="shown", fixed={"channel": "sms"}, unknown="skip")
        WarmStart(told 170 rewards of 2 cells, from 3 rows; skipped: offer 'c' (70))
        """
        for mode, partition in warm_start.to_learn(self.space, frame, columns, fixed).items():
            self._do(commands.LearnRegions(mode, partition))
        past = warm_start.past_of_log(
            self.space, self.policy, frame, reward, trials, columns, fixed, missing, clean, features
        )
        return self._start(commands.Import(past, fixed, unknown, weight))

    def tell_bandit(
        self,
        other: Telling,
        *,
        fixed: Mapping[str, Label] | None = None,
        unknown: warm_start.Unknown | None = None,
        weight: float = 1.0,
    ) -> warm_start.WarmStart:
        """Learn all rewards that another bandit was told; modes and levels are matched by label, so they may differ.

        Levels that are not known here teach what their features say, if both bandits have features of the mode: a
        bandit whose levels are all new starts warm. Regions of numbers that are still to be learned here become the
        other's, and stay should the rewards be refused. The arguments are those of :meth:`tell_log`. Decisions that
        wait there stay there.

        >>> from tensorbandits import Bandit, Space
        >>> old, new = ({f"{name} {at}": {"price": at} for at in range(3)} for name in ("old", "new"))
        >>> one, two = (Bandit(Space({"offer": list(some)}, features={"offer": some}), seed=0) for some in (old, new))
        >>> one.tell(arm={"offer": "old 2"}, reward=1)
        >>> two.tell_bandit(one)
        WarmStart(told 1 rewards of 1 cells; added as retired levels: offer 'old 2')
        """
        if not isinstance(other, Telling) or other is self:
            raise TypeError(f"{other!r} is not another Bandit; give one, or a data frame to tell_log")
        other._do(None)
        for mode, one in self.space.regions.items():
            theirs = other.space.regions.get(mode)
            if one.learning and theirs is not None and theirs.partition is not None and theirs.numbers == one.numbers:
                self._do(commands.LearnRegions(mode, theirs.partition))
        with other._core.learner.still():
            ledger, levels, features = other.policy.copy_ledger(), other.space.levels, other.space.features
        past = warm_start.Past(
            dict(zip(other.space.modes, levels, strict=True)),
            ledger,
            features={
                mode: list(zip(levels[other.space.position(mode)], one.rows, strict=False))
                for mode, one in features.items()
            },
        )
        return self._start(commands.Import(past, fixed, unknown, weight))

    def bring_rewards(self, ledger: Ledger) -> bool:
        """Learn sums in the place of those that were brought before; say whether they are others.

        For those who add rewards up elsewhere, again and again, such as a lake. What was told otherwise stays beside
        them, and what is believed goes on from where it is. Only the policy learns of it: the timeline, comparisons and
        what drift is found from are of what was told here. For policies that sample.

        >>> from tensorbandits import Bandit, Ledger, Space
        >>> bandit, sums = Bandit(Space({"offer": ["a", "b"]}), reward="bernoulli", seed=0), Ledger((2,))
        >>> bandit.tell(arm={"offer": "a"}, reward=1)
        >>> sums.add([(0,), (1,)], [31, 2], trials=[1_000, 1_000])
        >>> bandit.bring_rewards(sums), bandit.bring_rewards(sums), bandit.policy.ledger.rounds
        (True, False, 2001.0)
        """
        self._do(None)
        core = self._core
        with core.learner.still():
            held = self.policy.copy_ledger()
            own = held if self._brought is None else self._brought.own_by(held)
            whole = own.empty()
            whole.merge(own)
            whole.merge(ledger)
            if same_rewards(whole, held):
                self._brought = Brought(own, held)
                return False
            core.learner.leave([lambda policy: policy.replace_ledger(whole)])
            core.learner.take_in()  # which raises if the policy refuses it
            self._brought = Brought(own, self.policy.copy_ledger())
            with core.lock:
                core.state.rewards = whole.rounds
        return True

    def _start(self, command: commands.Import) -> warm_start.WarmStart:
        [event] = self._do(command)
        assert isinstance(event, Imported)
        assert event.start is not None
        return event.start

    def status(self, decision: str | Decision) -> str:
        """Return the state of a decision: inactive, open, rewarded, timed out or cancelled."""
        self._do(None)
        return self._core.state.book[number_of(decision)].state

    def reward(self, decision: str | Decision) -> float | None:
        """Return the reward of a decision as it is now, the default after its window, or ``None`` if it has none."""
        self._do(None)
        return self._core.state.book[number_of(decision)].reward

    @property
    def waiting(self) -> int:
        """How many decisions wait for a reward or for being shown."""
        return self._core.waiting

    def expire(self) -> None:
        """Tell the default of decisions whose window has ended; every other call does so too."""
        self._do(None)
