"""Figures of a bandit: they show the numbers of its frames, and labels that can be read and told apart."""

from itertools import pairwise

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit import beliefs
from tensorbandits.bandit.figures import KINDS
from tensorbandits.bandit.figures.parts import names

pytest.importorskip("matplotlib")
LONG = [f"a very long name of offer number {at} for everybody" for at in range(40)]
MODES = {"segment": ["new", "old", "$_all"], "offer": LONG, "channel": ["mail", "sms", "web", "app"]}


def played(rounds=300, start=1.7e9, **settings):
    rng = np.random.default_rng(0)
    now = [start]
    like = {name: {f"{LONG[0]} {at}": (at * row) % 3 for at in (1, 2)} for row, name in enumerate(MODES["channel"])}
    space = tb.Space(MODES, context=["segment"], features={"channel": like})
    one = tb.Bandit(space, rank=1, holdout=0.2, seed=0, clock=lambda: now[0], **settings)
    for _ in range(rounds):
        now[0] += 600.0
        decision = one.ask(segment=MODES["segment"][rng.integers(3)])
        one.tell(decision, float(decision.arm["channel"] == "sms") + 0.1 * rng.standard_normal())
    return one


@pytest.fixture(scope="module")
def bandit():
    return played()


def overlaps(boxes):
    """How many of some boxes, in their order, overlap the next by more than a fifth of the smaller height or width."""
    count = 0
    for one, two in pairwise(boxes):
        wide = min(one.x1, two.x1) - max(one.x0, two.x0)
        high = min(one.y1, two.y1) - max(one.y0, two.y0)
        count += bool(wide > 0.2 * min(one.width, two.width) and high > 0.2 * min(one.height, two.height))
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_and_its_labels_lie_within_and_apart(bandit, kind, tmp_path):
    figure = bandit.plot(kind, path=tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert figure.get_suptitle()
    figure.set_dpi(150)
    figure.draw_without_rendering()
    width, height = figure.canvas.get_width_height()
    for axes in figure.axes:
        assert axes.get_xlabel() or axes.get_ylabel()
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            boxes = [text.get_window_extent() for text in shown if text.get_text() and text.get_visible()]
            assert not overlaps(boxes), f"{kind}: labels overlap"
            inside = [(b.x0 > -2, b.y0 > -2, b.x1 < width + 2, b.y1 < height + 2) for b in boxes]
            assert np.all(inside), f"{kind}: labels are cut"
    title = figure._suptitle.get_window_extent()
    assert 0 < title.x0 < title.x1 < width, f"{kind}: the title is cut"


def test_figures_show_the_numbers_of_the_frames(bandit):
    found = bandit.explain()
    axes = bandit.plot("interactions").axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, 100 * found.shares["share"])
    assert [text.get_text() for text in axes.get_yticklabels()] == found.shares["part"].tolist()

    (panel,) = [axes for axes in bandit.plot("effects").axes if axes.get_title() == "channel"]
    frame = found.effects[found.effects["mode"] == "channel"].sort_values("reward", ascending=False)
    assert [text.get_text() for text in panel.get_yticklabels()] == frame["level"].tolist()
    drawn = [line.get_xdata()[0] for line in panel.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(drawn, frame["reward"])

    image = bandit.plot("estimate", modes=("channel", "segment"), fixed={"offer": LONG[2]}).axes[0].images[0]
    table = beliefs.table(bandit.space, bandit.policy, ("channel", "segment"), {"offer": LONG[2]}, None)
    np.testing.assert_allclose(image.get_array(), table.estimate)

    lines = bandit.plot("arms", context={"segment": "old"}, count=4).axes[0]
    best = bandit.explain(segment="old", arms=4).arms
    np.testing.assert_allclose([one.get_xdata()[0] for one in lines.lines if one.get_marker() == "o"], best["estimate"])

    panels = bandit.plot("factors", mode="channel").axes
    factors = found.factors[found.factors["mode"] == "channel"].sort_values("factor_1", ascending=False)
    for number, axes in enumerate(panels, start=1):
        np.testing.assert_allclose(axes.collections[1].get_offsets()[:, 0], factors[f"factor_{number}"], atol=1e-12)


def test_time_is_shown_as_it_passed(bandit):
    history = bandit.history()
    axes = bandit.plot("reward").axes[0]
    assert [line.get_label() for line in axes.lines] == ["policy", "holdout"]
    for line, name in zip(axes.lines, ("policy", "holdout")):
        rows = history[history["by"] == name]
        group = -(-75 // 5)  # 75 blocks; five points, as the holdout has few rewards
        means = [part["total"].sum() / part["rewards"].sum() for _, part in rows.groupby(rows["block"] // group)]
        np.testing.assert_allclose(line.get_ydata(), means)
    traffic = bandit.plot("traffic", mode="channel", against="time").axes[0]
    assert traffic.get_xlabel() == "time (UTC)"
    rows = bandit.history("channel")
    rows = rows[rows["by"] == "policy"]
    first = rows[rows["block"] < 3].groupby("level")["decisions"].sum()
    lowest = traffic.collections[0]  # the level with most traffic
    heights = lowest.get_paths()[0].vertices[:, 1]
    label = lowest.get_label()
    assert np.isclose(heights, 100 * first[label] / first.sum()).any()
    assert played(20, start=0.0).plot("traffic", against="time").axes[0].get_xlabel() == "time (seconds)"


def test_labels_that_are_shortened_stay_apart():
    assert len(set(names(LONG))) == 40
    assert names(["a$b", "_c"]) == [r"a\$b", " _c"]


def test_more_levels_than_can_be_read_are_left_out_with_words():
    one = tb.Bandit(tb.Space({"item": range(60), "shelf": ["x", "y"]}), rank=1, seed=0)
    one.tell(one.ask(), 1.0)
    assert "(40 of 60)" in one.plot("effects").axes[0].get_title()
    assert "(40 of 60)" in one.plot("estimate").get_suptitle()
    assert "(40 of 60)" in one.plot("factors").get_suptitle()


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        ("effect", {}, "did you mean 'effects'"),
        (None, {}, "the kinds are"),
        ("effects", {"mode": "offer"}, "did you mean 'modes'"),
        ("effects", {"modes": "offer"}, "give a list of modes"),
        ("effects", {"modes": ["ofer"]}, "did you mean 'offer'"),
        ("factors", {"mode": "ofer"}, "did you mean 'offer'"),
        ("arms", {"context": {"segment": "nwe"}}, "did you mean 'new'"),
        ("arms", {"count": 0}, "count is 0"),
        ("uncertainty", {"level": 2}, "level is 2"),
        ("traffic", {"against": "days"}, "allowed are 'decisions' and 'time'"),
        ("reward", {"against": "days"}, "allowed are 'decisions' and 'time'"),
    ],
)
def test_wrong_figures_are_refused(bandit, kind, options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        bandit.plot(kind, **options)


def test_levels_of_which_the_policy_has_yet_to_hear_are_drawn():
    one = played(20)
    one.space.add_level("channel", "letter")
    image = one.plot("estimate", modes=("segment", "channel")).axes[0].images[0]
    assert image.get_array().shape == (3, 5)
    assert one.plot("effects", modes=["channel"]).axes


def test_nothing_done_is_said():
    one = tb.Bandit(tb.Space(MODES, ["segment"]), "ucb")
    with pytest.raises(ValueError, match="no decision was made yet"):
        one.plot("traffic")
    decision = one.ask(segment="new")
    with pytest.raises(ValueError, match="no decision has a reward yet"):
        one.plot("reward")
    one.tell(decision, 1.0)
    assert one.plot("reward", against="time").axes
    assert one.plot("estimate").axes
    with pytest.raises(ValueError, match="no posterior to take intervals from"):
        one.plot("uncertainty")
    with pytest.raises(ValueError, match="use 'thompson' or 'ensemble'"):
        one.plot("effects")
