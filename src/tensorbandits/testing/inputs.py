"""What is refused: bad levels, cells, rewards, shapes, contexts, ranks and horizons; and nothing changes by it."""

from __future__ import annotations

from typing import Any

from tensorbandits.testing.case import SHAPE, Case, Skipped, play, raises, same

_NAN, _INF = float("nan"), float("inf")
_ASKS_WITH_CONTEXT: list[Any] = [
    ((), ValueError, "one level for each"),
    ((0, 0), ValueError, "one level for each"),
    ((9,), ValueError, "out of range; allowed are 0 to 3"),
    ((-1,), ValueError, "out of range"),
    (("a",), TypeError, "whole numbers"),
    ("b", TypeError, "sequence"),
]
_ASKS: list[Any] = [((0,), ValueError, "policy without context; call it without levels")]
_TELLS: list[Any] = [
    ((0, 1), 1.0, ValueError, "has 2 levels.*3 modes"),
    ((0, 1, 9), 1.0, ValueError, "mode 2 is 9, out of range; allowed are 0 to 1"),
    ((0, 1, 0.5), 1.0, TypeError, "whole numbers"),
    ((0, 1, 1), _NAN, ValueError, "reward is nan"),
    ((0, 1, 1), _INF, ValueError, "reward is inf"),
    ((0, 1, 1), "1", TypeError, "not a number"),
    ((0, 1, 1), None, TypeError, "not a number"),
]
_TRIALS: list[Any] = [
    (3, 2, ValueError, "3 clicks of 2 trials.*from 0 to the trials"),
    (-1, 2, ValueError, "-1 clicks"),
    (0.5, 1, ValueError, "0.5 clicks"),
    (0, 0, ValueError, "of 0 trials.*from 1"),
    (1, 2.5, ValueError, "of 2.5 trials"),
    (1, 1e16, ValueError, "trials"),
    (1, _NAN, ValueError, "number of trials 0 is nan"),
    (_NAN, 3, ValueError, "reward 0 is nan"),
    (1, "3", TypeError, "not a number"),
    ("1", 3, TypeError, "not a number"),
]
_SHAPES: list[Any] = [
    ((), ValueError, "at least one mode"),
    ((3, 0), ValueError, "mode 1 has size 0"),
    ((3, -1), ValueError, "mode 1 has size -1"),
    ((3, 2.5), TypeError, "whole numbers"),
    (7, TypeError, "one size per mode"),
    ("33", TypeError, "one size per mode"),
]
_CONTEXTS: list[Any] = [
    ((0, 1, 2), "nothing is left to decide"),
    ((5,), "does not exist"),
    ((0, 0), "twice"),
    ((-1,), "does not exist"),
]
_RANKS: list[Any] = [
    (0, ValueError, "at least 1"),
    (-2, ValueError, "at least 1"),
    (1.5, TypeError, "whole number"),
    ("best", ValueError, '"auto"'),
    ((2, 2), ValueError, "2 entries.*3 modes"),
    ((4, 2, 2), ValueError, "rank of mode 0 is 4; allowed are 1 to its size 3"),
    ((0, 2, 2), ValueError, "rank of mode 0 is 0"),
    ((3, 1, 2), ValueError, "no tensor has rank.*lower it to at most 2"),
]


def check_bad_input_is_refused_and_changes_nothing(case: Case) -> None:
    """Bad levels, cells and rewards are named in an error, and leave the policy as it was."""
    for context in ((), (1,)) if case.takes_context else ((),):
        policy, twin = case.make(SHAPE, context=context), case.make(SHAPE, context=context)
        play(policy, 40)
        play(twin, 40)
        _refuse_asks(policy, _ASKS_WITH_CONTEXT if context else _ASKS)
        _refuse_tells(policy)
        if context:
            with raises(ValueError, "is a number; this policy has context modes"):
                policy.ask_many(3)
        assert same(policy.state_dict(), twin.state_dict())
        assert play(policy, 40, seed=4) == play(twin, 40, seed=4)


def _refuse_asks(policy: Any, asks: list[Any]) -> None:
    for levels, error, match in asks:
        for call in (policy.ask, policy.best):
            with raises(error, match):
                call(levels)
        if levels != "b":
            with raises((ValueError, TypeError)):
                policy.ask_many([levels])


def _refuse_tells(policy: Any) -> None:
    for successes, trials, error, match in _TRIALS:
        with raises(error, match):
            policy.tell((0, 1, 1), successes, trials=trials)
        with raises(error):
            policy.tell_many([(0, 0, 0), (0, 1, 1)], [0, successes], trials=[1, trials])
    with raises(ValueError, "one number of trials per cell"):
        policy.tell_many([(0, 0, 0), (0, 1, 1)], [0, 1], trials=[1])
    for cell, reward, error, match in _TELLS:
        with raises(error, match):
            policy.tell(cell, reward)
        with raises((ValueError, TypeError)):
            policy.tell_many([(0, 0, 0), cell], [0.0, reward])
    with raises(ValueError, "one reward per cell"):
        policy.tell_many([(0, 0, 0)], [1.0, 2.0])
    with raises(ValueError, r"shape \(n, 3\)"):
        policy.estimate([(0, 0)])


def check_bad_shapes(case: Case) -> None:
    """A shape that is none is refused."""
    for shape, error, match in _SHAPES:
        with raises(error, match):
            case.make(shape)


def check_bad_contexts(case: Case) -> None:
    """Context modes that do not exist, come twice or leave nothing to decide are refused."""
    for context, match in _CONTEXTS:
        refused = (ValueError, match if case.takes_context else "takes no context")
        error, words = refused if case.takes("context") else (TypeError, "")
        with raises(error, words):
            case.make(SHAPE, context=context)


def check_bad_ranks(case: Case) -> None:
    """A rank that no tensor of this shape has is refused."""
    if not case.takes("rank"):
        raise Skipped("this policy has no rank")
    for rank, error, match in _RANKS:
        with raises(error, match):
            case.make(SHAPE, rank=rank)


def check_a_horizon_that_is_too_short_is_refused(case: Case) -> None:
    """A horizon that is none, or too short for what the policy plans, is refused."""
    if not case.takes("horizon"):
        raise Skipped("this policy needs no horizon")
    for horizon in (0, -5, 1):
        with raises(ValueError, "horizon"):
            case.make((6, 6, 6), horizon=horizon)
