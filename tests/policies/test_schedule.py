"""How often chains sweep, beside the sampler itself."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.model.tempering import Ladder
from tensorbandits.policies.schedule import ladder_steps_per_reward, settled_from, sweeps_per_reward
from tensorbandits.policies.structures import Sampler
from tensorbandits.policies.tuning import Tuning


@pytest.mark.parametrize("settled", [50.0, 300.0])
def test_chains_sweep_as_often_as_the_schedule_says(settled, monkeypatch):
    swept, stepped = [], []
    sweep, step = Sampler.sweep, Ladder.step

    def counted(self, ledger, units, rng, sweeps, weight):
        swept.append(sweeps)
        return sweep(self, ledger, units, rng, sweeps, weight)

    def counted_step(self, *arguments, **options):
        stepped.append(1)
        return step(self, *arguments, **options)

    monkeypatch.setattr(Sampler, "sweep", counted)
    monkeypatch.setattr(Ladder, "step", counted_step)
    changes = {"settled": settled, "sharpened_from": 0.1, "ladder": 0.02}
    policy = tb.TensorThompsonSampling((5, 5, 5), 2, sweeps=1, exploration=1.0, residual=False, tuning=changes, seed=0)
    tb.simulate(policy, tb.TensorEnvironment(tb.paper_tensor(5, seed=0), seed=0), 1_500)
    numbers, tuning, rewards = 5 * 2 * 3 + 9, Tuning.of(changes), np.arange(1_500)
    from_here = settled_from([numbers], together=False, augmented=False, tuning=tuning)
    assert from_here == settled
    assert sum(swept) == pytest.approx(sweeps_per_reward(rewards, from_here).sum(), rel=0.05)
    assert len(stepped) == pytest.approx(
        ladder_steps_per_reward(rewards, numbers, from_here, tuning=tuning).sum(), rel=0.1
    )


def test_rewards_that_say_little_are_swept_for_together():
    rates = [float(sweeps_per_reward(100, settled=4000.0, worth=worth)) for worth in (0.5, 1.0, 2.0, 5.0)]
    assert rates == [1.0, 1.0, 0.5, 0.2]
