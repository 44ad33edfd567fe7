"""Random histories of a bandit: commands of all kinds at any time, planned in groups, and the log of what they did."""

import json
import random

import numpy as np

import tensorbandits as tb
from tensorbandits.bandit import commands as c
from tensorbandits.bandit.apprentice import Shadow
from tensorbandits.bandit.core import Core, restored_core
from tensorbandits.bandit.events import read_event
from tensorbandits.bandit.making import new_state
from tensorbandits.bandit.settings import arguments
from tensorbandits.bandit.warm_start import Past
from tensorbandits.base import codec

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
RING = 4
MOST_LEVELS = 9  # of a mode
NUMBERS = {"age": {"numbers": ["age"], "regions": 3, "requests": 10}}  # a mode that some have


OFFERS = [("a", {"price": 2.0, "colour": "red"}), ("b", {"price": 4.0, "colour": "red"}), ("c", {"colour": "blue"})]


def random_values(rng):
    """Return random values of features, some of which cannot be."""
    given = {
        "price": rng.choice([1, 2.5, None, 1e7] if rng.random() < 0.9 else ["much", float("inf"), True]),
        "colour": rng.choice(["red", "blue", "green", None]),
    }
    if rng.random() < 0.05:
        given["size"] = 3
    return {name: given[name] for name in rng.sample(sorted(given), rng.randint(0, 2))}


def settings(rng):
    """Return random settings of a bandit, with little room, so that decisions are soon forgotten."""
    reward = rng.choice(["bernoulli", "gaussian", "count"])
    window, numeric = rng.choice([None, "10 min", 4]), rng.random() < 0.4
    policy = rng.choice(["thompson", "ensemble"]) if reward == "gaussian" else "thompson"
    described = policy == "thompson" and rng.random() < 0.5
    return {
        "modes": MODES | (NUMBERS if numeric else {}),
        "features": {"offer": [{"label": one, "features": values} for one, values in OFFERS]} if described else None,
        "context": ["segment", "age"] if numeric else ["segment"],
        "rank": 1,
        "reward": reward,
        "window": window,
        "default": None if window is None else rng.choice([None, 0]),
        "half_life": rng.choice([None, 20, "1 h"]),
        "adds": rng.random() < 0.5,
        "capacity": rng.choice([3, 20]),
        "remember": rng.choice([0, 1, 5, 1000]),
        "apprentice": rng.random() < 0.5,
        "policy": policy,
    }


def made(given):
    """Return the core of a new bandit."""
    known = arguments({name: value for name, value in given.items() if value is not None})
    known.pop("ring", None)
    return Core(new_state(**known, time=0.0, seed=0, settings=given), RING)


def bits(core):
    """Return everything that a core knows, as plain data; but its ids' tokens, and what its policy draws by chance."""
    state = core.frozen()()
    state.pop("policy")
    state["book"] = {name: part for name, part in state["book"].items() if name != "issued"}
    book, now = core.state.book, core.state.moment
    known = {
        "overdue": [book.overdue(time=now + more) for more in (0.0, 1.0, 100.0, 1e6)],
        "oldest": [(number, record._replace(stamp=0)) for number, record in book.oldest(1000)],
        "settled": book.settled(),
        "waiting": len(book),
        "shape": core.policy.shape,
        "features": getattr(core.policy, "features", None),
    }
    return _plain({"state": state, "ledger": core.policy.copy_ledger().state(), **known})


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if name != "version"}  # how often a ledger changed
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


class Histories:
    """A bandit that random commands are carried out on, and its log."""

    def __init__(self, rng=None, *, unique=False, **given):
        self.rng = rng or random.Random(0)
        self._unique = unique  # whether no two decisions ever have the same id, as in a store
        self.settings = settings(self.rng) | given
        self.core = made(self.settings)
        self.log = []  # kind, time, decision, body, as a store has them
        self.ids, self.tokens, self.elsewhere = [], [], {}
        self.now, self.done, self.refused, self.groups = 0.0, 0, 0, 0

    # Random commands.

    def command(self):
        """Return a random command."""
        kinds, weights = zip(*_KINDS.items(), strict=True)
        return self.rng.choices(kinds, weights)[0](self)

    def _id(self):
        chance = self.rng.random()
        if not self.ids or chance < 0.02:
            return self.rng.choice(["nobody", "", 7])
        return self.rng.choice(self.ids[-8:] if chance < 0.8 else self.ids[-200:])

    def _cell(self):
        return tuple(self.rng.randrange(size) for size in self.core.space.shape)

    def _reward(self):
        return self.rng.choice([0, 1, 1, 0.5, 3, -1, "much"] if self.rng.random() < 0.1 else [0, 1])

    def decide(self):
        book, rng = self.core.state.book, self.rng
        number = book.ids.issue(book) if rng.random() < 0.6 or not self.ids else f"order {rng.randrange(10**6)}"
        if self.ids and not self._unique and rng.random() < 0.05:
            number = rng.choice(self.ids[-20:])
        self.ids.append(number)
        would = (
            Shadow(self._cell(), rng.random(), rng.random(), 0.5) if self.core.state.settings["apprentice"] else None
        )
        by = "caller" if would else rng.choice(["policy", "holdout", "floor"])
        drawn = c.Drawn(self._cell(), rng.choice([None, 0.25]), by, rng.choice([None, None, {"tries": 2}]), None, would)
        numbers = (
            self.core.space.numbers_to_learn(age=rng.choice([None, 20, 35.5, rng.random()])) if self._numeric else ()
        )
        return c.Decide(drawn, number, rng.random() < 0.8, numbers)

    def adopt(self):
        """A decision that was made elsewhere, told of once or often, which may be known."""
        rng = self.rng
        number = rng.choice(self.tokens[-20:]) if self.tokens and rng.random() < 0.5 else "a new one"
        if number == "a new one" or (self._unique and number not in self.core.state.book):
            number = f"token {len(self.tokens)} {rng.randrange(10**6)}"
        if number not in self.elsewhere:
            by, chances = rng.choice(["policy", "holdout", "floor", "caller"]), rng.choice([(1.0, 0.0), (0.8, 0.1)])
            drawn = c.Drawn(self._cell(), rng.choice([None, 0.25]), by, chances=chances)
            self.elsewhere[number] = drawn, self.now - rng.choice([-5.0, 0.0, 1.0, 300.0, 5000.0])
            self.tokens.append(number)
            self.ids.append(number)
        then = rng.choice([None, None, c.Tell(number, self._reward(), rng.random() < 0.5), c.Cancel(number)])
        if self.ids and rng.random() < 0.05:
            then = c.Tell(number, 1, add=True)
        return c.Adopt(number, *self.elsewhere[number], then)

    def tell(self):
        return c.Tell(self._id(), self._reward(), self.rng.random() < 0.4, self.rng.random() < 0.2)

    def tell_cell(self):
        trials = self.rng.choice([None, None, 5])
        return c.TellCell(self._cell(), self._reward(), trials)

    def level(self):
        if self._numeric and self.rng.random() < 0.5:
            return self.region()
        mode = self.rng.choice(list(MODES))
        known = self.core.space.levels[self.core.space.position(mode)]
        label = self.rng.choice(known)
        if self.rng.random() < 0.6:
            return self.rng.choice([c.RetireLevel, c.RestoreLevel])(mode, label)
        like = self.rng.choice([None, label])
        rewards = None if like is None else self.rng.choice([None, 2.5])
        values = random_values(self.rng) if mode in self.core.space.features or self.rng.random() < 0.1 else None
        return c.AddLevel(mode, f"{mode} {len(known)}" if len(known) < MOST_LEVELS else label, like, rewards, values)

    def describe(self):
        """Other features of some levels, of a mode with features or one that had none."""
        rng, mode = self.rng, self.rng.choice(["offer", "offer", "segment", "color"])
        known = self.core.space.levels[self.core.space.position(mode)] if mode in MODES else ("a",)
        some = rng.sample(known, rng.randint(1, len(known)))
        return c.Describe(
            mode, rng.choice([None, *[[(one, random_values(rng)) for one in some]] * 5]), rng.random() < 0.2
        )

    @property
    def _numeric(self):
        return "age" in self.settings["modes"]

    def region(self):
        """Regions that are learned, which need some requests, or split."""
        known = self.core.space.levels[self.core.space.position("age")]
        if self.rng.random() < 0.5 or len(known) > 2 * MOST_LEVELS:
            return c.LearnRegions("age")
        return c.SplitRegion("age", self.rng.choice([*known, "no region"]), self.rng.choice([None, 0.5, 25, "x"]))

    def rule(self):
        if self._numeric and self.rng.random() < 0.3:
            age = self.rng.choice(self.core.space.levels[self.core.space.position("age")])
            return c.ChangeRule({"forbid": {"age": age, "channel": "mail"}}, self.rng.random() < 0.7)
        labels = {"offer": self.rng.choice(["a", "b"]), "channel": self.rng.choice(["mail", ["sms"]])}
        return c.ChangeRule({self.rng.choice(["forbid", "allow"]): labels}, self.rng.random() < 0.5)

    def setting(self):
        given = {
            "holdout": self.rng.choice([0, 0.1]),
            "window": self.rng.choice([None, "10 min", "1 min", 4, 2]),
            "default": self.rng.choice([None, 0, 1]),
            "floors": self.rng.choice([None, [{"labels": {"offer": "a"}, "share": 0.1}]]),
            "ceilings": self.rng.choice([None, [{"labels": {"offer": "b"}, "share": 0.5}]]),
            "baseline": self.rng.choice([None, {"offer": "a", "channel": "sms"}, "uniform"]),
            "apprentice": self.rng.random() < 0.5,
            "rank": 3,
        }
        some = self.rng.sample(sorted(given), self.rng.choice([1, 1, 2, 3]))
        return c.ChangeSettings({name: given[name] for name in some})

    def log_from_elsewhere(self):
        offers = ("a", self.rng.choice(["b", f"other {self.rng.randrange(6)}"]))
        ledger = tb.Ledger((2, 2))
        cells = [(self.rng.randrange(2), self.rng.randrange(2)) for _ in range(3)]
        ledger.add(cells, [1.0, 0.0, 1.0])
        past = Past({"segment": ("new", "old"), "offer": offers}, ledger, 3)
        fixed = {"channel": "sms"} | ({"age": "age missing"} if self._numeric else {})
        return c.Import(past, fixed, self.rng.choice(["error", "skip", "add"]), self.rng.choice([1.0, 0.5]))

    # Carrying them out.

    def go_on(self, *, check=True):
        """Plan a group of commands, each on the state after those before, take it all back, and then apply it."""
        self.now += self.rng.choice([0.0, 0.5, 1.0, 40.0, 700.0, -2000.0, 2000.0])
        core, before = self.core, bits(self.core) if check else None
        events, alone = [], False
        with core.lock, core.state.trial():
            for _ in range(self.rng.choice([1, 1, 2, 6])):
                command = self.command()
                if isinstance(command, c.ALONE) and events:
                    break
                events += self._planned(command)
                if alone := isinstance(command, c.ALONE):
                    break
        if check:
            assert bits(core) == before, "planning has changed something"
        self.groups += 1
        first = len(self.log)
        for event in events:
            body = json.loads(json.dumps(event.body(), allow_nan=False))
            self.log.append((event.kind, event.time, event.decision, body))
        core.apply(events)  # which must not fail
        core.state.seq += len(events)
        core.learner.take_in()
        return self.log[first:], alone

    def _planned(self, command):
        self.done += 1
        try:
            events = self.core.state.plan(command, self.now)
        except (LookupError, TypeError, ValueError):
            self.refused += 1
            return []
        for event in events if not isinstance(command, c.ALONE) else ():
            self.core.state.enter(event)
        return events

    # Folding the log.

    def folded(self, *, cuts=(), groups=lambda: 1):
        """Return the core that the log folds to, in groups of so many events, by way of a snapshot at each cut."""
        core, at, cuts = made(self.settings), 0, sorted(cuts)
        while at < len(self.log):
            end = min(at + max(groups(), 1), cuts[0] if cuts else len(self.log), len(self.log))
            events = [read_event(*row) for row in self.log[at:end]]
            core.apply(events)
            core.learner.take_in()
            core.state.seq, at = core.state.seq + len(events), end
            while cuts and at >= cuts[0]:
                cuts.pop(0)
                core = snapshot(core)
        return core


def snapshot(core):
    """Return a core by way of a snapshot in a file."""
    state = dict(codec.unpack(codec.pack("replica", 1, core.frozen()())).state)
    return restored_core(state, state["moment"], RING, {})


_KINDS = {
    Histories.decide: 30,
    Histories.tell: 30,
    Histories.adopt: 10,
    Histories.tell_cell: 5,
    lambda self: c.Activate(self._id()): 8,
    lambda self: c.Cancel(self._id()): 4,
    lambda self: c.Expire(self.rng.choice([None, 1, 3])): 10,
    Histories.level: 4,
    Histories.describe: 3,
    Histories.rule: 3,
    Histories.setting: 4,
    Histories.log_from_elsewhere: 2,
}
