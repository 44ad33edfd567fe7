"""What an apprentice would have earned: which rewards are counted, and when."""

from tensorbandits.bandit.apprentice import Apprentice, Shadow


def waiting(*numbers):
    apprentice = Apprentice()
    for number in numbers:
        apprentice.open(number, Shadow((0,), 1.0, 0.5, 0.5), (0,), 10)
    return apprentice


def test_what_waits_behind_a_cancelled_decision_is_counted():
    apprentice = waiting("first", "second")
    apprentice.reward("second", 1.0, in_order=True)
    assert apprentice.count == 0
    apprentice.forget("first")
    assert apprentice.count == 1


def test_what_is_known_can_be_counted_in_any_order():
    apprentice = waiting("first", "second", "third")
    apprentice.reward("second", 1.0, in_order=True)
    apprentice.count_all()
    assert apprentice.count == 1
    apprentice.reward("first", 0.0, in_order=False)
    assert (apprentice.count, apprentice.earned) == (2, 0.5)
