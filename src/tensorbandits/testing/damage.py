"""Damaged states, files and answers of oracles get clean errors, and never end the process."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.policies.approximate import ApproximateThompsonSampling
from tensorbandits.policies.base import Policy
from tensorbandits.policies.saving import _checksum, _split, arguments_of
from tensorbandits.tensor.tucker import Tucker
from tensorbandits.testing.case import SHAPE, Case, Skipped, play

_STATES = 240  # damaged, per policy
_FILES = 60  # damaged, per policy
_STUCK = 300.0  # seconds after which the process apart is taken to hang
_CLEAN = (ValueError, TypeError)
_ODD: list[Any] = [None, "x", "", [], {}, -1, 0, 0.5, -1e300, 1e300, float("nan"), float("inf"), True, [[1], [2, 3]]]


def check_damaged_states_are_refused(case: Case) -> None:
    """A state with something dropped, changed, swapped or of another shape: a clean error, whatever its checksum says.

    One that is accepted must go on, or say cleanly why it cannot. This runs in a process of its own, so that a crash
    is seen as one; a class that another process cannot import is checked in this one.
    """
    _apart(_damage_states, case)


def check_damaged_files_are_refused(case: Case) -> None:
    """A file that was cut short, or of which bytes were changed, is refused with a clean error."""
    _apart(_damage_files, case)


def check_damaged_answers_are_refused(case: Case) -> None:
    """Whatever an oracle returns that is no draw of the policy's shape is refused with a clean error."""
    if case.kind is not ApproximateThompsonSampling:
        raise Skipped("this policy takes no oracle")
    _apart(_damage_answers, case)


def _apart(work: Callable[[Case], None], case: Case) -> None:
    """Do the work in a process of its own, if that can import the policy."""
    if case.kind.__module__ == "__main__" or importlib.util.find_spec(case.kind.__module__) is None:
        work(case)
        return
    try:
        task = pickle.dumps((work, case))
    except (pickle.PicklingError, AttributeError):  # settings that are functions within functions
        work(case)
        return
    code = "import pickle, sys; work, case = pickle.load(sys.stdin.buffer); work(case)"
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=task,
        capture_output=True,
        timeout=_STUCK,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr.decode(errors='replace')[-3000:]}"


def _examples(case: Case) -> list[Policy]:
    """Policies at the start, while they explore and later, one of them with rules and a past that fades."""
    policies = [case.make(SHAPE, context=(1,) if case.takes_context else ()) for _ in range(3)]
    play(policies[1], 30, delay=5)
    policies[2].forbid({0: 0, 2: 1})
    play(policies[2], 150, delay=5, fade=0.999)
    return policies


def _damage_states(case: Case) -> None:
    rng = np.random.default_rng(0)
    whole = [policy.state_dict() for policy in _examples(case)]
    for number in range(_STATES):
        state = copy.deepcopy(whole[number % len(whole)])
        what = _damage(state, rng)
        if number % 4 and "arguments" in state and isinstance(state["arguments"], dict):
            rest = {name: part for name, part in state.items() if name != "checksum"}
            with contextlib.suppress(*_CLEAN):  # a state that cannot be written down has no checksum
                state["checksum"] = _checksum(rest)
        _clean(state, what)


def _clean(state: dict[str, Any], what: str) -> None:
    """Hold if a policy cannot be made with a clean error, or is made and goes on, or cannot with a clean error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers may be absurd
        try:
            policy: Policy = Policy.from_state_dict(state)
            levels = (0,) * len(policy.context)
            for _ in range(3):
                policy.tell(policy.ask(levels), 1.0)
            policy.best(levels)
            policy.estimate([(0,) * len(policy.shape)])
        except _CLEAN:
            pass
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all parts of a state."""
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from _places(part, (*path, key))


def _damage(state: dict[str, Any], rng: np.random.Generator) -> str:
    """Damage one part of a state in place, and say how."""
    places = [path for path in _places(state) if path != ("checksum",)]
    # As often in what the policy itself keeps as in all the rest.
    own = [path for path in places if path[0] in ("state", "ledger", "notes")]
    some = own if own and rng.random() < 0.7 else places
    path = some[int(rng.integers(len(some)))]
    parent: Any = reduce(getitem, path[:-1], state)
    key = path[-1]
    way = rng.random()
    if way < 0.1:
        del parent[key]
        return f"{path} dropped"
    if way < 0.2:
        other = places[int(rng.integers(len(places)))]
        parent[key] = copy.deepcopy(reduce(getitem, other, state))
        return f"{path} replaced by {other}"
    if way < 0.4:
        parent[key] = copy.deepcopy(_ODD[int(rng.integers(len(_ODD)))])
    else:
        parent[key] = _changed(parent[key], rng)
    return f"{path} set to {parent[key]!r}"


def _changed(value: Any, rng: np.random.Generator) -> Any:
    """A value of much the same kind that is wrong."""
    if isinstance(value, np.ndarray):
        return _changed_array(value, rng)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return _ODD[int(rng.integers(len(_ODD)))]
    if isinstance(value, (int, float)):
        others = [-value, value + 1, -value - 1, float(value) + 0.5, float("nan"), str(value), [value]]
        return others[int(rng.integers(len(others)))]
    if isinstance(value, (list, tuple)):
        return [value[:-1], [*value, 0], list(reversed(value)), [list(value)]][int(rng.integers(4))]
    return list(value) if isinstance(value, dict) else _ODD[int(rng.integers(len(_ODD)))]


def _changed_array(array: Any, rng: np.random.Generator) -> Any:
    result: Any = array.copy()
    way = int(rng.integers(8))
    if way == 0:
        return result.T.copy() if result.ndim > 1 else result[None]
    if way == 1:
        return result[:-1] if result.ndim else result[None]
    if way == 2:
        return result.astype(str)
    if way == 3:
        return result.ravel()[::-1].copy()
    if way == 4:
        return np.concatenate([result.ravel(), result.ravel()])
    if way == 5:
        return result.astype(complex)
    if result.size:
        at = tuple(int(rng.integers(size)) for size in result.shape)
        odd = [float("nan"), float("inf"), -1e300, 1e300] if result.dtype.kind == "f" else [-1, 10**6, -(2**62), 2**62]
        result[at] = odd[int(rng.integers(4))] if way == 6 else -result[at] - 1
    return result


def _damage_files(case: Case) -> None:
    rng = np.random.default_rng(1)
    with TemporaryDirectory() as folder:
        path, damaged = Path(folder) / "whole", Path(folder) / "damaged"
        for policy in _examples(case):
            policy.save(path)
            whole, code = path.read_bytes(), _split(arguments_of(policy))[1]
            for _ in range(_FILES // 3):
                damaged.write_bytes(_damaged_bytes(whole, rng))
                try:
                    Policy.load(damaged, **code)
                except _CLEAN:
                    continue
                raise AssertionError("a damaged file was taken for a whole one")


def _damaged_bytes(whole: bytes, rng: np.random.Generator) -> bytes:
    """A file cut short, with some other bytes, or followed by more."""
    content = bytearray(whole)
    way = int(rng.integers(4))
    if way == 0:
        return bytes(content[: int(rng.integers(len(content)))])
    if way == 1:
        return bytes(content) + rng.bytes(1 + int(rng.integers(20)))
    places = rng.integers(min(len(content), 200) if way == 2 else len(content), size=1 + int(rng.integers(5)))
    for at in places.tolist():
        content[at] ^= 1 + int(rng.integers(255))
    return bytes(content)


def _damage_answers(case: Case) -> None:
    rng = np.random.default_rng(2)
    for number in range(_STATES):
        answer = _answer(number, rng)
        policy = ApproximateThompsonSampling(SHAPE, lambda ledger, rng, answer=answer: answer, draws=2)
        for call in (policy.ask, policy.best, lambda policy=policy: policy.ask_many(2)):
            try:
                call()
            except _CLEAN:
                continue
            except Exception as error:
                raise AssertionError(f"an oracle's {answer!r}: {type(error).__name__}: {error}") from error
            assert _is_draw(answer), f"an oracle's {answer!r} was taken for a draw"


def _is_draw(answer: Any) -> bool:
    """Whether something is a finite array or tensor of the shape."""
    full = answer.full() if isinstance(answer, Tucker) else answer
    return isinstance(full, np.ndarray) and full.shape == SHAPE and bool(np.isfinite(full).all())


def _answer(number: int, rng: np.random.Generator) -> Any:
    """What an oracle may return by mistake: something odd, an array of another kind, or a tensor changed since."""
    if number % 3 == 0:
        return _ODD[int(rng.integers(len(_ODD)))]
    array = rng.standard_normal(SHAPE)
    if number % 3 == 1:
        return _changed_array(array, rng)
    rank: Cell = (2, 2, 2)
    tensor = Tucker(rng.standard_normal(rank), tuple(rng.standard_normal((p, 2)) for p in SHAPE))
    at = int(rng.integers(3))
    factors = [_changed_array(U, rng) if j == at else U for j, U in enumerate(tensor.factors)]
    object.__setattr__(tensor, "factors", tuple(factors))
    return tensor
