"""What states and files promise: a policy that is made again goes on identically; what is foreign is refused."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tensorbandits.policies.base import Policy
from tensorbandits.policies.epoch_greedy import TensorEpochGreedy
from tensorbandits.policies.saving import _checksum, _split, arguments_of, kind_name
from tensorbandits.policies.ucb import VectorizedUCB
from tensorbandits.testing.case import SHAPE, Case, play, raises, same


def check_a_state_goes_on_identically(case: Case) -> None:
    """A policy made from a state has the same state, and decides the same from then on."""
    for rounds in (0, 3, 45, 120):
        policy = case.make(SHAPE)
        play(policy, rounds, delay=5)
        state = policy.state_dict()
        again = Policy.from_state_dict(state)
        assert type(again) is case.kind
        assert same(state, again.state_dict()), rounds
        assert play(policy, 60, seed=9) == play(again, 60, seed=9), rounds
        assert policy.best() == again.best(), rounds


def check_a_file_goes_on_identically(case: Case) -> None:
    """So does a policy made from a file: with asks that wait, standing rules, a past that fades, and a context."""
    context = (1,) if case.takes_context else ()
    for rounds in (0, 1, 20, 150):
        policy = case.make(SHAPE, context=context)
        policy.forbid({0: 0, 2: 1}, {0: 2, 2: 0})
        play(policy, rounds, delay=5, fade=0.99)
        again = through_a_file(policy)
        assert type(again) is case.kind
        assert again.forbidden == policy.forbidden
        assert same(policy.state_dict(), again.state_dict()), rounds
        assert play(policy, 40, seed=9, delay=3, fade=0.99) == play(again, 40, seed=9, delay=3, fade=0.99), rounds


def through_a_file(policy: Policy) -> Policy:
    """Return the policy that is made from a file of this one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.safetensors"
        policy.save(path)
        return Policy.load(path, **_split(arguments_of(policy))[1])


def check_a_state_holds_only_plain_things(case: Case) -> None:
    """Arrays, numbers, strings, lists and dicts: what JSON with arrays beside it can hold (code in arguments aside)."""
    policy = case.make(SHAPE)
    play(policy, 70)
    state = policy.state_dict()
    state["arguments"] = _split(state["arguments"])[0]
    assert json.loads(json.dumps(state, default=np.ndarray.tolist))["policy"] == kind_name(case.kind)


def check_a_state_of_another_kind_or_version_is_refused(case: Case) -> None:
    """A state of another class, of another version, or that lacks something is refused."""
    state = case.make(SHAPE).state_dict()
    other: Any = TensorEpochGreedy if issubclass(case.kind, VectorizedUCB) else VectorizedUCB
    with raises(ValueError, "use that class, or Policy"):
        other.from_state_dict(state)
    with raises(ValueError, "version"):
        case.kind.from_state_dict(state | {"version": 99})
    with raises(ValueError, r"lacks .*rng"):
        case.kind.from_state_dict({key: value for key, value in state.items() if key != "rng"})


def check_a_class_that_is_not_known_is_named(case: Case) -> None:
    """The state of a class whose module was not imported says so; one of the same name elsewhere does not stand in."""
    name = case.kind.__name__
    state = case.make(SHAPE).state_dict()
    foreign = {key: part for key, part in state.items() if key != "checksum"} | {"policy": f"elsewhere.{name}"}
    with raises(ValueError, f"elsewhere.{name}.*not registered here; import the module"):
        Policy.from_state_dict(foreign | {"checksum": _checksum(foreign)})
    namesake = type(name, (case.kind,), {"__module__": "elsewhere", "__qualname__": name})
    try:
        assert type(Policy.from_state_dict(state)) is case.kind
        assert type(Policy.from_state_dict(foreign | {"checksum": _checksum(foreign)})) is namesake
    finally:
        del Policy._kinds[f"elsewhere.{name}"]
