"""What an application's threads, clocks, forks and hand-made files may do to a bandit, and must not break."""

import copy
import json
import math
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb

PATIENCE = 30.0  # seconds, which only what hangs takes
MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
OPEN_FOR = 0.25  # seconds for which others have time to begin to wait, and asks go on


def space():
    return tb.Space(MODES, ["segment"])


# A decision waits for nobody who learns, saves, adds or amends.


class Oracle:
    """Draws at random; while it is held, a draw ends only when it is released."""

    def __init__(self):
        self.held, self.inside, self.released = False, threading.Event(), threading.Event()
        self.threads = []  # that drew

    def __deepcopy__(self, memo):
        return self

    def __call__(self, ledger, rng):
        self.threads.append(threading.get_ident())
        if self.held:
            self.inside.set()
            self.released.wait(3 * PATIENCE)
        return rng.standard_normal(ledger.shape)

    def hold(self):
        self.held = True

    def release(self):
        self.held = False
        self.released.set()


def made(oracle, **settings):
    return tb.Bandit(
        space(), tb.ApproximateThompsonSampling((2, 3, 2), oracle, context=(0,), draws=4, seed=0), seed=0, **settings
    )


LOG = pa.table({"segment": ["new", "old"], "offer": ["a", "b"], "channel": ["sms", "sms"], "sales": [1.0, 2.0]})
HOUSEKEEPING = {
    "state_dict": lambda bandit, rewarded, path: bandit.state_dict(),
    "save": lambda bandit, rewarded, path: bandit.save(path / "bandit.safetensors"),
    "add_level": lambda bandit, rewarded, path: bandit.add_level("offer", "d"),
    "add_level like another": lambda bandit, rewarded, path: bandit.add_level("offer", "d", like="a"),
    "retire_level": lambda bandit, rewarded, path: bandit.retire_level("offer", "c"),
    "amend": lambda bandit, rewarded, path: bandit.tell(rewarded, 7.0, amend=True),
    "tell_log": lambda bandit, rewarded, path: bandit.tell_log(LOG, "sales"),
    "tell_bandit": lambda bandit, rewarded, path: tb.Bandit(space(), "ucb").tell_bandit(bandit),
    "diagnose": lambda bandit, rewarded, path: bandit.diagnose(),
}


def told(bandit):
    """Tell rewards, and return the ids of decisions: the first ten are rewarded, others wait."""
    ids = [bandit.ask(segment="new").id for _ in range(12)]
    for at, one in enumerate(ids[:10]):
        bandit.tell(one, float(at))
    return ids


def has_time(*work):
    """Give work the time to come to where it waits."""
    end = time.monotonic() + OPEN_FOR
    while not all(one.done() for one in work) and time.monotonic() < end:
        time.sleep(0.01)


def asks_go_on(bandit):
    """Ask for a while, more than once in any case, and return the decisions."""
    found, end = [], time.monotonic() + OPEN_FOR
    while time.monotonic() < end or len(found) < 20:
        found.append(bandit.ask(segment="new" if len(found) % 2 else "old"))
    return found


@pytest.mark.parametrize("what", HOUSEKEEPING)
def test_no_ask_waits_while_somebody_waits_for_the_learner(what, tmp_path):
    rehearsal = made(Oracle())  # so that all is imported and compiled
    HOUSEKEEPING[what](rehearsal, told(rehearsal)[0], tmp_path)
    oracle = Oracle()
    bandit = made(oracle)
    ids = told(bandit)
    oracle.hold()
    with ThreadPoolExecutor(4) as pool:
        try:
            learning = pool.submit(bandit.ask, segment="new")
            assert oracle.inside.wait(PATIENCE), "nobody learns"
            keeping = pool.submit(HOUSEKEEPING[what], bandit, ids[0], tmp_path)
            has_time(keeping)
            telling = pool.submit(bandit.tell, ids[10], 3.0)
            has_time(telling)
            asking = pool.submit(asks_go_on, bandit)
            found = asking.result(PATIENCE)  # which raises if an ask hangs
            assert not oracle.released.is_set()
        finally:
            oracle.release()
        keeping.result(PATIENCE)
        telling.result(PATIENCE)
        found += [learning.result(PATIENCE)]
    assert len({one.id for one in found}) == len(found)
    assert bandit.reward(ids[10]) == 3.0
    assert bandit.reward(ids[0]) == (7.0 if what == "amend" else 0.0)
    if what.startswith("add_level"):
        assert bandit.ask(segment="new", allowed={"offer": ["d"]}).arm["offer"] == "d"
    elif what == "retire_level":
        assert all(bandit.ask(segment="new").arm["offer"] != "c" for _ in range(20))
    elif what == "save":
        loaded = tb.Bandit.load(tmp_path / "bandit.safetensors", oracle=Oracle())
        assert loaded.reward(ids[2]) == 2.0


def test_a_bandit_that_learns_in_a_thread_never_lets_an_ask_learn():
    oracle = Oracle()
    bandit = made(oracle, learning="thread")
    me = threading.get_ident()
    decisions = [bandit.ask(segment="new") for _ in range(20)]
    for one in decisions[:10]:
        bandit.tell(one.id, 1.0)
    assert oracle.threads
    assert me not in oracle.threads
    oracle.hold()
    bandit.tell(decisions[10].id, 1.0)
    with ThreadPoolExecutor(1) as pool:
        try:
            assert oracle.inside.wait(PATIENCE), "nobody learns what was told"
            bandit.tell_log(LOG, "sales")
            asked = pool.submit(asks_go_on, bandit)
            assert len(asked.result(PATIENCE)) >= 20
        finally:
            oracle.release()
    assert me not in oracle.threads
    with pytest.raises(ValueError, match="learning"):
        made(Oracle(), learning="sometimes")


def test_an_id_that_is_taken_is_refused_whatever_else_is_asked():
    bandit = made(Oracle())
    bandit.ask(segment="new", id="mine", allowed={"offer": ["a"]})
    with pytest.raises(ValueError, match="'mine' already"):
        bandit.ask(segment="new", id="mine", allowed={"offer": ["b"]})
    with pytest.raises(ValueError, match="'mine' already"):
        bandit.ask(segment="new", id="mine", allowed={"offer": ["a"]})


# Windows end when they end, whatever the clock did in between.


class Clock:
    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


def test_one_step_of_the_clock_withholds_nothing():
    clock = Clock()
    bandit = tb.Bandit(space(), rank=1, reward="bernoulli", window="10 min", default=0, clock=clock, seed=0)
    clock.now += 86_400
    ahead = bandit.ask(segment="new").id
    clock.now -= 86_400
    later = [bandit.ask(segment="new").id for _ in range(5)]
    bandit.tell(later[0], 1)
    clock.now += 300
    last = bandit.ask(segment="old").id
    assert [bandit.status(one) for one in later[1:]] == ["open"] * 4
    clock.now += 301
    bandit.expire()
    assert [bandit.status(one) for one in later] == ["rewarded", *["timed out"] * 4]
    assert [bandit.reward(one) for one in later] == [1, 0, 0, 0, 0]
    assert bandit.status(last) == "open"
    clock.now += 300
    assert (bandit.status(last), bandit.reward(last)) == ("timed out", 0)
    clock.now += 86_400 + 601
    assert bandit.status(ahead) == "timed out"
    assert bandit.waiting == 0
    assert bandit.policy.ledger.received == 7


def test_windows_that_end_in_another_order_are_kept_apart_when_a_decision_is_shown_late():
    clock = Clock()
    bandit = tb.Bandit(space(), rank=1, reward="bernoulli", window="10 min", default=0, clock=clock, seed=0)
    hidden = bandit.ask(segment="new", activate=False).id
    clock.now += 86_400
    bandit.activate(hidden)
    clock.now -= 86_400
    shown = bandit.ask(segment="new").id
    loaded = tb.Bandit.from_state_dict(bandit.state_dict(), clock=clock)  # as a file would be
    clock.now += 601
    for one in (bandit, loaded):
        assert (one.status(shown), one.reward(shown)) == ("timed out", 0)


# Forks and copies.

FORK = """
import json, os, signal, sys, threading
import numpy as np
import tensorbandits as tb

def child(work):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    signal.alarm(60)  # which ends a child that hangs
    try:
        os.write(writer, json.dumps(work()).encode())
    finally:
        os._exit(0)

def answer(made):
    pid, reader = made
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None
"""
SIBLINGS = """
space = tb.Space({"offer": list("abcdef"), "channel": list("uvwxyz"), "time": list("12345")})
bandit = tb.Bandit(space, KIND, rank=1, seed=0)
for _ in range(3):
    bandit.tell(bandit.ask().id, 1.0)

def asks():
    made = [bandit.ask() for _ in range(50)]
    return {"ids": [one.id for one in made], "arms": [sorted(one.arm.items()) for one in made]}

children = [child(asks) for _ in range(2)]
print(json.dumps([asks(), *map(answer, children)]))
"""
LOCKED = """
class Oracle:
    held = False
    draws = 0
    def __call__(self, ledger, rng):
        self.draws += 1
        if self.held:
            inside.set()
            released.wait(100)
        return rng.standard_normal(ledger.shape)

inside, released, oracle = threading.Event(), threading.Event(), Oracle()
space = tb.Space({"offer": list("abc"), "channel": list("uv")})
bandit = tb.Bandit(space, tb.ApproximateThompsonSampling((3, 2), oracle, draws=4, seed=0), seed=0, **SETTINGS)
ids = [bandit.ask().id for _ in range(5)]
bandit.tell(ids[0], 1.0)
oracle.held = True
if not SETTINGS:
    threading.Thread(target=bandit.ask, daemon=True).start()
bandit.tell(ids[1], 1.0)
assert inside.wait(60)
for work in (bandit.state_dict, lambda: bandit.tell(ids[0], 2.0, amend=True)):
    threading.Thread(target=work, daemon=True).start()
threading.Event().wait(0.3)  # they hold what they hold

def goes_on():
    oracle.held, before = False, oracle.draws
    bandit.tell(ids[2], 1.0)
    made = [bandit.ask().id for _ in range(5)]
    while oracle.draws == before:
        made.append(bandit.ask().id)
    return {"ids": made, "reward": bandit.reward(ids[2]), "state": sorted(bandit.state_dict())}

found = answer(child(goes_on))
oracle.held = False
released.set()
print(json.dumps(found))
"""

HALF_WAY = """
from tensorbandits.bandit.state import State

space = tb.Space({"offer": list("abc"), "channel": list("uv")})
bandit = tb.Bandit(space, "ucb", seed=0)
number = bandit.ask().id
inside, apply = threading.Event(), State.apply

def slow(self, event):
    lessons = apply(self, event)
    inside.set()
    threading.Event().wait(1)
    return lessons

State.apply = slow
threading.Thread(target=lambda: bandit.tell(number, 1.0)).start()
inside.wait()
print(json.dumps(answer(child(lambda: [bandit.status(number), bandit.policy.ledger.received]))))
"""
AT_ONCE = """
wrong = []
sys.unraisablehook = lambda raised: wrong.append(str(raised.exc_value))
space = tb.Space({"offer": list("abc"), "channel": list("uv")})
bandits = [tb.Bandit(space, "ucb", seed=seed) for seed in range(200)]
found, ended = [], threading.Event()

def changes():
    while not ended.is_set():
        for one in bandits:
            one.tell(one.ask().id, 1.0)

def forks():
    for _ in range(TIMES):
        found.append(answer(child(lambda: len([one.ask() for one in bandits]))))

changing = threading.Thread(target=changes)
forking = [threading.Thread(target=forks) for _ in range(3)]
for thread in (changing, *forking):
    thread.start()
for thread in forking:
    thread.join()
ended.set()
changing.join()
print(json.dumps({"found": found, "wrong": wrong}))
"""


def run(script):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=4 * PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["thompson", "ensemble"])
def test_children_of_a_fork_decide_by_themselves(kind):
    found = run(FORK + SIBLINGS.replace("KIND", repr(kind)))
    assert None not in found, "a child ended without an answer"
    ids = [one for process in found for one in process["ids"]]
    assert len(set(ids)) == 3 * 50
    parent, first, second = (process["arms"] for process in found)
    assert parent != first
    assert parent != second
    assert first != second


@pytest.mark.parametrize("learning", [{}, {"learning": "thread"}], ids=["by asks", "by a thread"])
def test_a_fork_while_others_hold_locks_leaves_a_child_that_decides_and_learns(learning):
    found = run(FORK + f"SETTINGS = {learning!r}\n" + LOCKED)
    assert found is not None, "the child hung, and was ended"
    assert len(set(found["ids"])) == len(found["ids"]) >= 5
    assert found["reward"] == 1.0


def test_a_child_has_all_of_a_change_or_nothing_of_it():
    assert run(FORK + HALF_WAY) in (["open", 0], ["rewarded", 1])


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_threads_may_fork_at_once(times):
    assert run(FORK + f"TIMES = {times}\n" + AT_ONCE) == {"found": 3 * times * [200], "wrong": []}


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda bandit: pickle.loads(pickle.dumps(bandit)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("policy", ["thompson", "thompson in a thread", "ucb"])
def test_a_copy_knows_the_same_and_goes_on_by_itself(how, policy):
    own = space()
    own.forbid(offer="c", channel="sms")
    settings = {"rank": 1, "reward": "gaussian"} if policy != "ucb" else {}
    settings["learning"] = "thread" if "thread" in policy else "ask"
    bandit = tb.Bandit(
        own,
        policy.split()[0],
        floors=[({"channel": "sms"}, 0.25)],
        window="10 min",
        default=0,
        adds=True,
        seed=0,
        **settings,
    )
    decisions = [bandit.ask(segment="new") for _ in range(6)]
    bandit.tell(decisions[0].id, 1.5)
    bandit.cancel(decisions[1].id)
    hidden = bandit.ask(segment="old", activate=False)
    twin = COPIES[how](bandit)
    assert [twin.status(one.id) for one in decisions] == ["rewarded", "cancelled", *["open"] * 4]
    assert twin.status(hidden.id) == "inactive"
    assert twin.reward(decisions[0].id) == 1.5
    assert twin.waiting == bandit.waiting == 5
    for one, other in zip(twin.policy.ledger.dense(), bandit.policy.ledger.dense()):
        np.testing.assert_array_equal(one, other)
    assert twin.space.rules == bandit.space.rules
    twin.tell(decisions[2].id, 3.0)
    twin.tell(decisions[0].id, 2.0, add=True)
    twin.add_level("offer", "d")
    twin.space.forbid(offer="a", channel="sms")
    assert (bandit.status(decisions[2].id), bandit.reward(decisions[0].id)) == ("open", 1.5)
    assert (len(bandit.space.levels[1]), len(bandit.space.rules)) == (3, 1)
    for one in (bandit, twin):
        one.best(segment="new")  # waits for a thread that learns
    assert bandit.policy.ledger.received == 1
    assert twin.policy.ledger.received == 2
    ours, theirs = ([one.ask(segment="new") for _ in range(60)] for one in (bandit, twin))
    assert len({one.id for one in ours + theirs}) == 120
    assert not {one.id for one in theirs} & {one.id for one in decisions}
    assert all((one.arm["offer"], one.arm["channel"]) != ("c", "sms") for one in ours + theirs)
    if policy == "thompson":
        assert [one.arm for one in ours] != [one.arm for one in theirs]
    assert twin.learning == bandit.learning


def test_a_bandit_with_code_that_no_pickle_finds_says_so():
    frozen = tb.Bandit(space(), "ucb", clock=lambda: 5.0)
    assert copy.copy(frozen).ask(segment="new").time == copy.deepcopy(frozen).ask(segment="new").time == 5.0
    with pytest.raises(TypeError, match=r"cannot be pickled, as its clock is <function .*load it with clock=\.\.\."):
        pickle.dumps(frozen)
    policy = tb.ApproximateThompsonSampling((2, 3, 2), lambda ledger, rng: rng.standard_normal((2, 3, 2)), context=(0,))
    with pytest.raises(TypeError, match=r"its oracle is <function .*load it with oracle=\.\.\."):
        pickle.dumps(tb.Bandit(space(), policy))


# Hand-made states.

ALL = [[[], 1.0]]  # the baseline that is uniform


def with_shares(state, *, floors=(), ceilings=(), baseline=ALL, holdout=0.0):
    """Return the state of a bandit with other shares: lists of pairs of mode and level, and a share."""
    return {**state, "shares": [list(floors), list(ceilings), list(baseline)], "holdout": holdout}


HAND_MADE = {
    "a negative floor": ({"floors": [[[[2, 1]], -0.25]]}, "floors"),
    "a floor above 1": ({"floors": [[[], 1.5]]}, "floors"),
    "floors above 1 together": ({"floors": [[[], 0.75], [[[1, 0]], 0.75]]}, "floors"),
    "a floor that is no number": ({"floors": [[[], math.nan]]}, "floors"),
    "an infinite floor": ({"floors": [[[], math.inf]]}, "floors"),
    "a floor of text": ({"floors": [[[], "much"]]}, "floors"),
    "a negative ceiling": ({"ceilings": [[[[1, 0]], -1.0]]}, "ceilings"),
    "a ceiling that is no number": ({"ceilings": [[[[1, 0]], math.nan]]}, "ceilings"),
    "a mode that is not there": ({"floors": [[[[7, 0]], 0.1]]}, "mode"),
    "a negative mode": ({"floors": [[[[-1, 0]], 0.1]]}, "mode"),
    "a level that is not there": ({"floors": [[[[1, 99]], 0.1]]}, "level"),
    "a negative level": ({"ceilings": [[[[1, -1]], 0.1]]}, "level"),
    "a level of text": ({"floors": [[[[1, "a"]], 0.1]]}, "level"),
    "a baseline of half": ({"baseline": [[[[1, 0]], 0.5]], "holdout": 0.5}, "baseline"),
    "a baseline of nothing": ({"baseline": [], "holdout": 0.5}, "baseline"),
    "a baseline with a negative part": (
        {"baseline": [[[[1, 0]], 1.25], [[[1, 1]], -0.25]], "holdout": 0.5}, "baseline",
    ),
    "a holdout of 2": ({"holdout": 2.0}, "holdout"),
    "a holdout of 1": ({"holdout": 1.0}, "holdout"),
    "a negative holdout": ({"holdout": -0.25}, "holdout"),
    "a holdout that is no number": ({"holdout": math.nan}, "holdout"),
    "parts that are none": ({"floors": [3]}, "floors"),
}  # fmt: skip


@pytest.mark.parametrize("what", HAND_MADE)
def test_hand_made_shares_are_refused_with_what_is_wrong(what):
    changes, word = HAND_MADE[what]
    state = tb.Bandit(space(), rank=1, seed=0).state_dict()
    with pytest.raises(ValueError, match=word):
        tb.Bandit.from_state_dict(with_shares(state, **changes))


def test_a_hand_made_state_that_is_taken_gives_probabilities():
    rng, state = np.random.default_rng(0), tb.Bandit(space(), rank=1, seed=0).state_dict()
    taken = 0

    def share():
        return float(rng.choice([-0.25, 0.0, 0.25, 0.5, 1.25, math.nan], p=[0.1, 0.2, 0.3, 0.2, 0.1, 0.1]))

    def part():
        return [[[int(rng.integers(1, 3)), int(rng.integers(0, 2))]], share()]

    for _ in range(60):
        changes = {"floors": [part() for _ in range(rng.integers(3))], "ceilings": [part()], "holdout": share()}
        try:
            bandit = tb.Bandit.from_state_dict(with_shares(state, **changes))
        except ValueError:
            continue
        taken += 1
        for _ in range(20):
            assert 0 < bandit.ask(segment="new").propensity <= 1, changes
    assert taken


# What is said of the next decision is its probability.


def near_ties(rng, shape, count):
    """Return cells and noisy rewards of a world in which several cells are nearly the best."""
    factors = [np.linspace(0.9, 1.0, size) for size in shape]
    mean = np.einsum("i,j,k->ijk", *factors)
    cells = np.stack([rng.integers(size, size=count) for size in shape], axis=1)
    return cells, mean[tuple(cells.T)] + 0.5 * rng.standard_normal(count)


@pytest.mark.parametrize(("copies", "draws"), [(360, 300), pytest.param(1_200, 1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("told", "residual"),
    [
        pytest.param(0, False, id="nothing new, draws recalled"),
        pytest.param(0, True, id="nothing new, the last draw recalled", marks=pytest.mark.slow),
        pytest.param(1, False, id="one reward more, draws recalled", marks=pytest.mark.slow),
        pytest.param(1, True, id="one reward more, the last draw recalled"),
    ],
)
def test_shares_are_the_probabilities_of_the_next_ask(residual, told, copies, draws):
    """Copies of one state, each with randomness of its own, choose cells as often as was said."""
    shape = (6, 6, 6)
    policy = tb.TensorThompsonSampling(shape, 1, residual=residual, draws=draws, seed=0)
    cells, rewards = near_ties(np.random.default_rng(0), shape, 6_000)
    policy.tell_many(cells, rewards)
    for _ in range(60):
        policy.ask()
    for _ in range(told):
        policy.tell((5, 5, 5), 1.0)
    said = policy.shares()
    assert sum(said.values()) == pytest.approx(1.0)
    state = policy.state_dict()
    seen = Counter()
    for seed in range(copies):
        other = tb.Policy.from_state_dict(state)
        other.reseed(seed)
        seen[other.ask()] += 1
    for cell in said.keys() | seen.keys():
        p, share = said.get(cell, 0.0), seen[cell] / copies
        middle = (p * draws + share * copies) / (draws + copies)  # of both, which are estimates
        error = math.sqrt(middle * (1.0 - middle) * (1.0 / draws + 1.0 / copies))
        assert abs(p - share) <= 5.0 * error + 2.0 / copies, (cell, p, share)
        assert policy.propensity(cell) == pytest.approx(p)
