"""Spaces: labels to indices and back, kept apart by kind, with rules and levels that come later."""

import copy
import enum
import json
import pickle
import sys
import threading
from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits import Space

labels = st.one_of(
    st.text(max_size=4), st.integers(), st.floats(allow_nan=False), st.booleans(), st.dates(), st.datetimes()
)


def kind(label):
    return "number" if type(label) in (int, float) else type(label).__name__


def offers(**options):
    modes = {"segment": ["new", "old"], "offer": ["a", "b", "video"], "channel": ["mail", "sms"]}
    return Space(modes, **options)


@given(st.lists(st.lists(labels, min_size=1, max_size=6, unique_by=lambda x: (kind(x), x)), min_size=1, max_size=4))
def test_labels_and_indices_are_inverse_also_after_json(levels):
    space = Space({f"mode {j}": mode for j, mode in enumerate(levels)})
    again = Space.from_state(json.loads(json.dumps(space.state(), allow_nan=False)))
    assert again == space
    assert space.shape == tuple(map(len, levels))
    for cell in {tuple(0 for _ in levels), tuple(len(mode) - 1 for mode in levels)}:
        named = again.labels(cell)
        assert [(kind(label), label) for label in named.values()] == [
            (kind(mode[i]), mode[i]) for mode, i in zip(levels, cell)
        ]
        assert space.cell(named) == cell


def test_kinds_are_kept_apart_but_equal_numbers_are_one_label():
    space = Space({"mixed": [1, "1", True, date(2024, 1, 1), datetime(2024, 1, 1)]})
    assert [space.level("mixed", label) for label in space.levels[0]] == [0, 1, 2, 3, 4]
    assert space.level("mixed", 1.0) == space.level("mixed", np.float32(1)) == space.level("mixed", np.uint8(1)) == 0
    assert space.level("mixed", np.bool_(True)) == 2
    with pytest.raises(ValueError, match=r"mode 'm' has the level 1.0 already, as 1; name each level once"):
        Space({"m": [1, 1.0]})
    with pytest.raises(ValueError, match=r"has the level 'a' already; name"):
        Space({"m": ["a", "b", "a"]})
    assert Space({"m": [1]}) != Space({"m": [True]})
    assert Space({"m": [1]}) == Space({"m": [1.0]})


def test_labels_of_numpy_and_pandas_become_plain():
    pd = pytest.importorskip("pandas")

    class Channel(enum.StrEnum):
        MAIL = "mail"

    space = Space(
        {
            "number": np.arange(3),
            "text": np.array(["a", "b"]),
            "series": pd.Series(["x", "y"]),
            "day": np.array(["2024-01-01"], dtype="datetime64[D]"),
            "time": pd.date_range("2024-01-01", periods=2),
            "channel": ["sms", Channel.MAIL],
        }
    )
    assert space.levels[:3] == ((0, 1, 2), ("a", "b"), ("x", "y"))
    assert {type(label) for label in space.levels[0] + space.levels[1]} == {int, str}
    assert space.levels[3] == (date(2024, 1, 1),)
    assert type(space.levels[4][0]) is datetime
    assert space.level("time", np.datetime64("2024-01-02", "ns")) == 1
    assert space.level("channel", "mail") == 1
    assert type(space.levels[5][1]) is str


def test_many_cells_at_once_agree_with_one_by_one():
    space = offers()
    cells = np.array(list(np.ndindex(*space.shape)))
    columns = space.columns(cells)
    np.testing.assert_array_equal(space.cells(columns), cells)
    assert space.cells(columns).dtype == np.int64
    assert [dict(zip(columns, row)) for row in zip(*columns.values())] == [
        space.labels(tuple(c)) for c in cells.tolist()
    ]
    assert space.cells({"channel": [], "offer": [], "segment": []}).shape == (0, 3)
    assert space.columns([]) == {"segment": [], "offer": [], "channel": []}


def test_context_is_positions_in_the_order_given():
    assert offers(context=["channel", "segment"]).context == offers(context=[2, 0]).context == (2, 0)
    space = offers(context=["channel", "segment"])
    assert space.given(segment="old", channel="mail") == (0, 1)
    policy = tb.VectorizedUCB(space.shape, context=space.context, seed=0)
    chosen = space.labels(policy.ask(space.given(segment="old", channel="sms")))
    assert (chosen["segment"], chosen["channel"]) == ("old", "sms")
    assert repr(space) == "Space(segment: 2 (context), offer: 3, channel: 2 (context))"


def test_rules_are_partial_cells():
    space = offers(context=["segment"])
    space.forbid(offer="video", channel="sms")
    space.forbid({"channel": "sms"}, offer="video")  # the same again
    space.forbid(offer="b")
    assert space.forbidden == ({1: 2, 2: 1}, {1: 1})
    space.forbidden[0][1] = 0  # a copy
    assert space.forbidden == ({1: 2, 2: 1}, {1: 1})
    other = offers(context=["segment"])
    other.forbid(offer="b")
    assert other != space
    other.forbid(channel="sms", offer="video")
    assert other == space
    assert Space.from_state(space.state()) == space
    assert repr(space) == "Space(segment: 2 (context), offer: 3, channel: 2; 2 forbidden)"
    assert space.allowed(offer=["video", "a"]) == {1: [2, 0]}


def test_levels_come_later_without_moving_the_others():
    space = offers()
    before = space.labels((1, 2, 1))
    assert space.add_level("offer", "summer") == 3
    assert space.shape == (2, 4, 2)
    assert space.labels((1, 2, 1)) == before
    assert space.cell(segment="new", offer="summer", channel="mail") == (0, 3, 0)
    with pytest.raises(ValueError, match="'summer' already"):
        space.add_level("offer", "summer")


def test_copies_are_apart():
    space = offers()
    for other in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        other.add_level("offer", "new")
        other.forbid(offer="a")
        assert (space.shape, space.forbidden) == ((2, 3, 2), ())


@pytest.mark.parametrize(
    ("modes", "context", "error", "words"),
    [
        (["a"], (), TypeError, "give the levels of each mode by name"),
        ({}, (), ValueError, "modes is empty"),
        ({3: ["a"]}, (), TypeError, "name 3; names are text"),
        ({"": ["a"]}, (), TypeError, "names are text, and not empty"),
        ({"a": []}, (), ValueError, "mode 'a' has no levels"),
        ({"a": "xyz"}, (), TypeError, "are 'xyz'; give a list"),
        ({"a": {"x", "y"}}, (), TypeError, "numbered in its order"),
        ({"a": 5}, (), TypeError, "are 5; give a list"),
        ({"a": [None, "x"]}, (), TypeError, "label None, of type NoneType"),
        ({"a": [float("nan")]}, (), TypeError, "label nan.*not NaN"),
        ({"a": [np.datetime64("NaT", "ns")]}, (), TypeError, "NaT"),
        ({"a": [["x"]]}, (), TypeError, "of type list"),
        ({"a": [b"x"]}, (), TypeError, "of type bytes"),
        ({"a": ["x"], "b": ["y"]}, ["c"], ValueError, "'c' is no mode; the modes are"),
        ({"a": ["x"], "b": ["y"]}, ["a", "b"], ValueError, "nothing is left to decide"),
        ({"a": ["x"], "b": ["y"]}, ["a", "a"], ValueError, "twice"),
        ({"a": ["x"], "b": ["y"]}, "a", TypeError, "give a list of modes"),
        ({"a": ["x"], "b": ["y"]}, [7], ValueError, "does not exist"),
    ],
)
def test_what_is_no_space_is_refused(modes, context, error, words):
    with pytest.raises(error, match=words):
        Space(modes, context)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda s: s.cell(segment="nwe", offer="a", channel="sms"), ValueError, "'nwe' is no level.*mean 'new'"),
        (lambda s: s.cell(segment="new", ofer="a", channel="sms"), ValueError, "'ofer' is no mode.*mean 'offer'"),
        (lambda s: s.cell(segment="new"), ValueError, "no label is given for 'offer', 'channel'"),
        (lambda s: s.cell({"offer": "a"}, offer="a"), ValueError, "'offer' is given twice"),
        (lambda s: s.cell(["new", "a", "sms"]), TypeError, "give labels by mode"),
        (lambda s: s.cell(segment=["new"], offer="a", channel="sms"), TypeError, "of type list"),
        (lambda s: s.given(offer="a"), ValueError, "'offer' is decided, not given; the context modes are"),
        (lambda s: s.given(), ValueError, "no label is given for 'segment'"),
        (lambda s: s.labels((0, 0)), ValueError, "has 2 levels"),
        (lambda s: s.labels((0, 0, 2)), ValueError, "allowed are 0 to 1"),
        (lambda s: s.columns([(0, 9, 0)]), ValueError, "in row 0, the level of mode 1 is 9"),
        (
            lambda s: s.cells({"segment": ["new"], "offer": ["a", "b"], "channel": ["sms"]}),
            ValueError,
            "as many of each",
        ),
        (lambda s: s.cells({"segment": ["new"]}), ValueError, "no label is given"),
        (lambda s: s.forbid(), ValueError, "none of which is decided"),
        (lambda s: s.forbid(segment="new"), ValueError, r"names \['segment'\], none of which is decided"),
        (lambda s: s.allowed(offer="a"), TypeError, "give a list"),
        (lambda s: s.allowed(offer=[]), ValueError, "no levels"),
    ],
)
def test_wrong_requests_say_what_to_do(ask, error, words):
    with pytest.raises(error, match=words):
        ask(offers(context=["segment"]))


def test_the_same_text_of_another_kind_is_suggested():
    with pytest.raises(
        ValueError, match=r"'7' is no level of mode 'hour', which has 0, .* 7 and 16 more: did you mean 7"
    ):
        Space({"hour": range(24)}).level("hour", "7")
    with pytest.raises(ValueError, match="True is no level of mode 'a', which has 1, 2: give one of them"):
        Space({"a": [1, 2]}).level("a", True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: None,
        lambda state: {},
        lambda state: state | {"levels": state["levels"][:1]},
        lambda state: state | {"levels": [[None], *state["levels"][1:]]},
        lambda state: state | {"levels": [[{"shell": "rm"}], *state["levels"][1:]]},
        lambda state: state | {"context": [9]},
        lambda state: state | {"forbidden": [[[-1, 0]]]},
        lambda state: state | {"forbidden": [[[1, 99]]]},
        lambda state: state | {"forbidden": [[[1, True]]]},
        lambda state: state | {"forbidden": [[1, 2, 3]]},
    ],
)
def test_damaged_states_are_refused(damage):
    with pytest.raises(ValueError, match=r"no state of a space .*give what Space.state returned"):
        Space.from_state(damage(offers().state()))


def test_a_mode_may_have_any_name():
    space = Space({"self": ["a"], "labels": ["b"], "time:3h": ["00-03"], "mode": ["c"]})
    assert space.cell({"time:3h": "00-03"}, self="a", labels="b", mode="c") == (0, 0, 0, 0)


# Rules and levels as data.


def test_rules_are_listed_removed_and_saved():
    space = offers(context=["segment"])
    space.forbid(offer="video", channel="sms")
    space.allow(segment="new", offer=["a", "b"])
    space.allow(channel=["sms", "mail"], segment="old", offer="a")
    assert space.rules == (
        {"forbid": {"offer": "video", "channel": "sms"}},
        {"allow": {"segment": "new", "offer": ["a", "b"]}},
        {"allow": {"segment": "old", "offer": "a", "channel": ["mail", "sms"]}},
    )
    assert space.forbidden == ({1: 2, 2: 1}, {0: 0, 1: 2})
    again = Space.from_state(json.loads(json.dumps(space.state())))
    assert again == space
    assert again.rules == space.rules
    for rule in space.rules:
        before = space.version
        space.remove_rule(rule)
        assert space.version != before
    assert (space.rules, space.forbidden) == ((), ())
    assert again != space


def test_allowing_in_the_words_of_a_rule_takes_it_back():
    space = offers(context=["segment"])
    space.forbid(offer="video", channel="sms")
    with pytest.raises(ValueError, match=r"is no rule here; the rules are .*video"):
        space.allow(offer="video", channel="mail")
    with pytest.raises(ValueError, match=r"no rule here.*list them: channel=\['mail'\]"):
        space.allow(offer="a", channel="mail")
    space.allow(channel="sms", offer="video")
    assert space.rules == ()


def test_a_level_that_is_added_is_not_among_those_that_alone_are_allowed():
    space = offers(context=["segment"])
    space.allow(segment="new", offer=["a", "b"])
    space.add_level("offer", "summer")
    assert space.forbidden == ({0: 0, 1: 2}, {0: 0, 1: 3})
    space.forbid(offer="a", segment="new")
    with pytest.raises(ValueError, match="nothing would be left"):
        space.forbid(offer="b", segment="new")


def test_a_rule_that_leaves_nothing_is_found_when_it_is_made():
    space = offers(context=["segment"])
    space.forbid(segment="old", offer="a")
    space.forbid(segment="old", offer="b")
    space.forbid(segment="old", offer="video", channel="sms")
    before = space.state(), space.version
    for bad in ({"channel": "mail"}, {"segment": "old", "channel": "mail"}, {"offer": "video", "channel": "mail"}):
        with pytest.raises(ValueError, match=r"nothing would be left to choose given \{'segment': 'old'\}"):
            space.forbid(bad)
    with pytest.raises(ValueError, match="nothing would be left to choose given"):
        space.retire_level("offer", "video")
    with pytest.raises(ValueError, match="nothing would be left to choose given"):
        space.allow(channel=["sms"])
    assert (space.state(), space.version) == before
    space.allow(segment="old", offer="a")
    space.forbid(channel="mail", offer="video")


def test_the_count_of_what_is_left_agrees_with_counting_anew():
    rng, refusals = np.random.default_rng(0), set()
    space = Space({"s": [0, 1], "a": [0, 1, 2], "b": [0, 1]}, context=["s"])
    for _ in range(300):
        mode, label = [("s", 0), ("a", 1), ("a", 2), ("b", 1)][rng.integers(4)]
        rules = list(space.rules)
        try:
            match rng.integers(6):
                case 0:
                    space.forbid({"s": int(rng.integers(2)), "a": int(rng.integers(3)), "b": int(rng.integers(2))})
                case 1:
                    space.allow(s=int(rng.integers(2)), a=rng.permutation(3)[:2].tolist())
                case 2:
                    space.retire_level(mode, label)
                case 3:
                    space.restore_level(mode, label)
                case _:
                    if rules:
                        space.remove_rule(rules[rng.integers(len(rules))])
        except ValueError as error:
            refusals.add(str(error).partition(" ")[2].partition("{")[0])
        mask = np.ones(space.shape, dtype=bool)
        for partial in space.forbidden:
            mask[tuple(partial.get(j, slice(None)) for j in range(3))] = False
        assert mask.any(axis=(1, 2)).all()
        left = space._book._left
        assert left is None or (left == mask).all()
    assert len(refusals) > 1


def test_retired_levels_are_data_too():
    space = offers(context=["segment"])
    space.retire_level("offer", "a")
    space.retire_level("segment", "old")
    space.retire_level("offer", "a")
    assert space.retired == {"segment": ["old"], "offer": ["a"]}
    assert space.forbidden == ({1: 0},)  # a context that is retired is not asked for
    assert Space.from_state(json.loads(json.dumps(space.state()))) == space
    space.restore_level("offer", "a")
    assert space.forbidden == ()


@pytest.mark.parametrize(
    "rule",
    [{}, {"forbid": {}, "allow": {}}, {"permit": {"offer": "a"}}, "forbid", {"forbid": "a"}, {"allow": {"offer": "a"}}],
)
def test_what_is_no_rule_is_not_removed(rule):
    space = offers(context=["segment"])
    space.forbid(offer="a")
    with pytest.raises((TypeError, ValueError)):
        space.remove_rule(rule)
    assert len(space.rules) == 1


def test_a_whitelist_of_context_is_refused():
    with pytest.raises(ValueError, match="none of which is decided"):
        offers(context=["segment"]).allow(segment=["new"])
    with pytest.raises(ValueError, match="no levels"):
        offers(context=["segment"]).allow(offer=[])


def test_threads_may_change_rules_that_others_read():
    """No rule is lost, none leaves nothing to choose, and nobody reads half of a change."""
    space = Space({"segment": range(4), "offer": range(30)}, context=["segment"])
    failed, refused = [], []

    def work(segment):
        try:
            for offer in range(30):
                before = space.version
                try:
                    space.forbid(segment=segment // 2, offer=offer)
                    assert space.version > before
                except ValueError:
                    refused.append(segment // 2)
                assert len(space.forbidden) <= len(copy.deepcopy(space).rules) <= len(space.state()["forbidden"]) <= 58
        except Exception as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(segment,)) for segment in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failed == []
    assert len(space.rules) == 58  # all but one offer of two segments
    assert set(refused) == {0, 1}
    assert pickle.loads(pickle.dumps(space)) == space
