"""A bandit over many modes, whose policy plays pairs: everything that a bandit does, it does there too."""

import numpy as np
import pytest

import tensorbandits as tb

MODES = {"country": 4, "device": 3, "creative": 12, "discount": 5, "channel": 3, "button": 2}
LABELS = {mode: [f"{mode} {level}" for level in range(size)] for mode, size in MODES.items()}


@pytest.fixture(scope="module")
def played():
    space = tb.Space(LABELS, context=["country", "device"])
    space.forbid(creative="creative 3", channel="channel 1")
    bandit = tb.Bandit(space, reward="bernoulli", seed=0, floors=0.02)
    rng = np.random.default_rng(0)
    effects = {mode: 0.5 * rng.standard_normal(size) for mode, size in MODES.items()}
    effects["creative"][7] = 3.0
    for _ in range(700):
        given = {mode: str(rng.choice(LABELS[mode])) for mode in ("country", "device")}
        decision = bandit.ask(**given)
        cell = {**decision.context, **decision.arm}
        x = sum(effects[mode][LABELS[mode].index(label)] for mode, label in cell.items())
        bandit.tell(decision.id, int(rng.random() < 1 / (1 + np.exp(2.0 - x))))
        assert decision.propensity is not None
        assert (cell["creative"], cell["channel"]) != ("creative 3", "channel 1")
    return bandit


def test_it_finds_what_is_best_and_explains_it(played):
    given = {"country": "country 0", "device": "device 0"}
    assert played.best(**given)["creative"] == "creative 7"
    explained = played.policy.explain()
    assert explained.effects[2][:, 0].argmax() == 7
    assert explained.shares[(2,)][0] > 0.2
    assert "creative 7" in repr(played.explain())


def test_a_level_comes_and_goes_and_a_file_keeps_everything(played, tmp_path):
    played.save(tmp_path / "mail")
    again = tb.Bandit.load(tmp_path / "mail", fresh=False)
    given = {"country": "country 1", "device": "device 2"}
    assert again.policy.ledger == played.policy.ledger
    again.add_level("creative", "creative 12", like="creative 7")
    again.add_level("button", "button 2")  # two levels had one column, three have three
    seen = {again.ask(**given).arm["creative"] for _ in range(60)}
    assert seen <= {*LABELS["creative"], "creative 12"}
    again.retire_level("creative", "creative 7")
    assert all(again.ask(**given).arm["creative"] != "creative 7" for _ in range(40))
    for _ in range(5):
        again.tell(again.ask(**given).id, 1)


def test_what_is_played_is_what_is_advised(played):
    found = played.diagnose(max_rank=1)
    assert "pairs" in found.structure.scores
    three = tb.TensorThompsonSampling((4, 5, 3), seed=0)
    rng = np.random.default_rng(1)
    mean = np.einsum("ia,ja,ka->ijk", *(rng.standard_normal((p, 2)) for p in (4, 5, 3)))
    for _ in range(600):
        cell = three.ask()
        three.tell(cell, mean[cell] + 0.3 * rng.standard_normal())
    found = three.diagnose(max_rank=2)
    most = max(found.playing, key=found.playing.get)
    assert sum(found.playing.values()) == pytest.approx(1.0)
    if found.playing[most] > 0.5:
        assert most == (found.structure if found.rank is None else f"{found.structure} {found.rank}")
        assert f"plays {most}" in found.words
