"""How the numbers of the suite ``claims`` are measured, each a function of its settings."""

from __future__ import annotations

import copy
import sys
import tempfile
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import blas

import tensorbandits as tb
from benchmarks.run import peak_megabytes, python
from benchmarks.store import Result, Settings
from benchmarks.timing import POLICIES, Game, game, make, warm_up

SPELL = 100  # rounds in a row when two games take turns


def measure(settings: Settings) -> Result:
    task = settings["task"]
    return {
        "thompson": thompson,
        "elimination": dense,
        "estr": dense,
        "ensemble": ensemble,
        "import": import_time,
        "compile": compile_time,
    }[task](settings)


def microseconds(times: list[float]) -> float:
    return 1e6 * float(np.median(times))


def thompson(settings: Settings) -> Result:
    """A round of Thompson sampling, in turns with UCB's arithmetic, then beside both plain twins."""
    from benchmarks.library.twins import sampling
    from tests.plain.sweep import all_rows, row_by_row

    warm_up("thompson")
    ours = game("thompson", settings["p"])
    ours.play(settings["rounds"])
    twins = {rows.__name__: ours.beside(sampling(ours.player, rows)) for rows in (row_by_row, all_rows)}
    rng = np.random.default_rng(0)
    n = rng.integers(1, 5, settings["p"] ** 3).astype(np.float64)
    s, t = rng.standard_normal(n.size) * n, float(n.sum())
    rounds, arithmetic = [], []
    for _ in range(settings["timed"]):
        rounds.append(ours.step())
        start = perf_counter()
        np.argmax(s / n + np.sqrt(2 * np.log(t) / n))
        arithmetic.append(perf_counter() - start)
    result: Result = {"round": microseconds(rounds), "argmax": microseconds(arithmetic)}
    for name, twin in twins.items():
        twin.play(settings["timed"], settings["twin_budget"])
        result |= {name: microseconds(twin.times), f"{name}_rounds": len(twin.times)}
        result[f"{name}_agree"] = ours.agrees(twin, settings["rounds"])
    return result


def dense(settings: Settings) -> Result:
    """All rounds of elimination or ESTR; then a dense twin pulls from states of a second game, which is the same."""
    from benchmarks.library.twins import TWINS

    policy, rounds = settings["task"], settings["rounds"]
    warm_up(policy)
    ours = game(policy, settings["p"], horizon=rounds)
    working = []  # rounds after the exploration, for as long as there is something to decide
    for at in range(rounds):
        before = _works(ours.player)
        ours.step()
        if before or _works(ours.player):
            working.append(at)
    result: Result = {"round": 1e6 * float(np.mean(np.array(ours.times)[working])), "working": len(working)}
    result |= {"peak_megabytes": peak_megabytes(), "agree": 0, "pulls": 0, "looks": []}
    again, times = game(policy, settings["p"], horizon=rounds), []
    for share in (0.25, 0.75):
        at, state, env = _keep(again, working[int(share * len(working))], settings["pulls"])
        twin = Game(TWINS[policy](tb.Policy.from_state_dict(state)), env)
        twin.play(2)  # the first one touches memory that is new, and is not counted
        twin.play(settings["pulls"], settings["twin_budget"])
        times += twin.times[1:]
        result["looks"].append(at)
        result["agree"] += ours.agrees(twin, at)
        result["pulls"] += len(twin.times)
        result["dense_in_place"] = _in_place(twin.player.ridge.W)
    return result | {"dense": 1e6 * float(np.mean(times))}


def _works(policy: Any) -> bool:
    """Whether the exploration is over and more than one arm is left."""
    if isinstance(policy, tb.TensorElimination):
        return policy._ridge is not None and len(policy._active) > 1
    return policy._stage_2 is not None


def _keep(ours: Game, at: int, pulls: int) -> tuple[int, dict[str, Any], tb.TensorEnvironment]:
    """Play up to a round, or a little further so that the open phase has enough pulls left, and copy the state."""
    ours.play(at)
    policy = ours.player
    while isinstance(policy, tb.TensorElimination) and policy._length() - len(policy._pulls) < pulls:
        ours.step()
        if len(ours.times) >= policy.horizon:
            raise RuntimeError(
                f"no phase of elimination after round {at} has {pulls} pulls left: choose an earlier round"
            )
    return len(ours.times), policy.state_dict(), copy.deepcopy(ours.env)


def _in_place(W: Any) -> float:
    """Microseconds of the widest arm and a rank-one change with no copy of the matrix."""
    times = []
    for _ in range(5):
        start = perf_counter()
        arm = int(np.argmax(W.diagonal()))
        column = W[:, arm].copy()
        blas.dger(-1.0 / (1.0 + column[arm]), column, column, a=W.T, overwrite_a=1)
        times.append(perf_counter() - start)
    return microseconds(times)


def ensemble(settings: Settings) -> Result:
    """A hundred and a thousand models in turns, then the hundred much later in turns with a copy of themselves."""
    warm_up("ensemble")
    few, many = (game("ensemble", settings["p"], ensemble_size=size) for size in (100, 1_000))
    few.play(settings["rounds"])
    many.play(settings["rounds"])
    earlier = copy.deepcopy(few)
    result = dict(zip(("few", "many"), _in_turns(few, many, settings["windows"])))
    few.play(settings["later"])
    return result | dict(zip(("few_again", "later"), _in_turns(earlier, few, settings["windows"])))


def _in_turns(one: Game, two: Game, windows: int) -> list[float]:
    times: list[list[float]] = [[], []]
    for _ in range(windows):
        for player, kept in zip((one, two), times):
            kept += [player.step() for _ in range(SPELL)]
    return [microseconds(kept) for kept in times]


def import_time(settings: Settings) -> Result:
    """Fresh processes that import the library, after one whose files are then cached."""
    code = "from time import perf_counter as t; s = t(); import tensorbandits; print(t() - s)"
    python("-c", code)
    whole, alone = [], []
    for _ in range(settings["times"]):
        start = perf_counter()
        done = python("-c", code)
        whole.append(perf_counter() - start)
        alone.append(float(done.stdout))
    return {"process": float(np.median(whole)), "import": float(np.median(alone))}


def compile_time(settings: Settings) -> Result:
    """First use of every policy with an empty folder for compiled code, then again."""
    code = "from benchmarks.library.measured import first_use; first_use()"
    with tempfile.TemporaryDirectory() as folder:
        empty, kept = (python("-c", code, NUMBA_CACHE_DIR=folder) for _ in range(2))
    for done in (empty, kept):
        if done.returncode:
            raise RuntimeError(f"first use failed:\n{done.stderr}")
    return {"empty": float(empty.stdout), "kept": float(kept.stdout), "message": empty.stderr.strip()}


def first_use() -> None:
    """Ask each policy for a few cells; print the seconds."""
    rng = np.random.default_rng(0)
    start = perf_counter()
    for name in POLICIES:
        policy = make(name, (6, 6, 6), 2, 2_000)
        for _ in range(30):
            policy.tell(policy.ask(), float(rng.standard_normal()))
        policy.best()
    print(perf_counter() - start, file=sys.stdout)
