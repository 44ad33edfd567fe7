"""Deciders place numbers in regions by themselves, from what their snapshot says."""

import pyarrow as pa
import pytest

import tensorbandits as tb
from tests.decider.published import decider as decider_of


@pytest.fixture
def bandit():
    space = tb.Space({"age": tb.Numeric(cuts=[18, 30, 45, 65]), "offer": ["a", "b"]}, ["age"])
    space.split_region("age", "age 30 to 45", 38)
    space.forbid(age="age missing", offer="b")
    return tb.Bandit(space, rank=1, seed=0, max_sweeps=40)


def test_a_decider_places_numbers_as_its_bandit_does(bandit, tmp_path):
    content = bandit.snapshot().to_bytes()
    published = type(bandit.snapshot()).from_bytes(content)
    assert published.space == bandit.space
    with decider_of(published) as decider:
        for age in (31.5, 38, 17, None, float("nan"), 200, "age 18 to 30"):
            assert decider.ask(age=age).context == bandit.ask(age=age).context
        assert {decider.ask(age=None).arm["offer"] for _ in range(9)} == {"a"}
        many = decider.ask_many(pa.table({"age": [40.0, None], "user": [1, 2]}))
        assert [each.context["age"] for each in many] == ["age 38 to 45", "age missing"]
        assert set(decider.best(age=50)) == {"offer"}
        for wrong in (True, "31", [31]):
            with pytest.raises((TypeError, ValueError), match=r"give a number|no level of mode"):
                decider.ask(age=wrong)
        with pytest.raises(ValueError, match="no label is given for 'age'"):
            decider.ask()
