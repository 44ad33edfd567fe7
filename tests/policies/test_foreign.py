"""Policies that are not ours: what they take, what they are called, where they are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.policies import registry


class Seedless(tb.Policy):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)

    def _choose(self, query: Any, rng: np.random.Generator) -> tuple[int, ...]:
        return tuple(size - 1 for size in self.shape)

    def _best(self, query: Any) -> tuple[int, ...]:
        return tuple(size - 1 for size in self.shape)

    def _estimate(self, cells: Any) -> Any:
        return np.zeros(len(cells))


class PassesOn(tb.VectorizedUCB):
    def __init__(self, shape: tuple[int, ...], **others: Any) -> None:
        super().__init__(shape, **others)


def test_a_policy_that_draws_nothing_needs_no_seed() -> None:
    assert registry.find(Seedless).make((2, 3), horizon=5, seed=0).ask() == (1, 2)


def test_a_policy_that_passes_arguments_on_gets_context_and_seed() -> None:
    assert registry.find(PassesOn).make((2, 3), context=(0,), seed=0).context == (0,)


@pytest.mark.parametrize("name", ["ucb", "VectorizedUCB", "TensorThompsonSampling"])
def test_the_library_keeps_its_names(name: str) -> None:
    with pytest.raises(ValueError, match=r"is that of \w+; choose another"):
        registry.register(Seedless, name)
    assert registry.find(name).kind is not Seedless


@pytest.mark.parametrize("name", ["a\tb", "\n", "a b"])
def test_a_short_name_has_no_blanks(name: str) -> None:
    with pytest.raises(ValueError, match="give a short name without spaces"):
        registry.register(Seedless, name)


@pytest.mark.parametrize("text", ["1 / 0", "def"])
def test_a_module_that_cannot_be_imported_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_policies.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="'broken_policies:Own', which cannot be imported"):
        registry.find("broken_policies:Own")


def test_an_abstract_class_is_no_policy():
    with pytest.raises(ValueError, match="give a class derived from"):
        registry.find("tensorbandits:Policy")
    with pytest.raises(TypeError, match="is no policy"):
        tb.register(tb.Policy, "abstract")


def test_a_class_that_does_not_keep_its_arguments_cannot_be_saved_and_says_why():
    class Forgetful(tb.VectorizedUCB):
        def __init__(self, shape, *, seed=None, **more):
            super().__init__(shape, seed=seed)

    with pytest.raises(TypeError, match=r"does not keep its arguments \['more'\]"):
        Forgetful((2, 2)).state_dict()


@pytest.mark.parametrize("kind", [tb.TensorThompsonSampling, tb.TensorEnsembleSampling])
def test_noise_beyond_what_rewards_may_be_is_refused(kind):
    with pytest.raises(ValueError, match="noise is 1e\\+300; allowed are"):
        kind((2, 2), 1, noise=1e300)
