"""A report as pages: what was gathered in words, tables and charts, as one HTML file or as Markdown."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from tensorbandits.bandit.reporting import charts
from tensorbandits.bandit.reporting.gathered import BestArms, Gathered, ModeFound
from tensorbandits.bandit.reporting.since import shown
from tensorbandits.bandit.reporting.words import between, difference_of, duration, listed, reward_of, share
from tensorbandits.report import page
from tensorbandits.report.page import Drawing, Part, Report, Section, Table, Text, escape

_SIDES = {"policy": "the bandit", "holdout": "the holdout", "caller": "your own rule"}
_VERDICTS = {
    "better": "The bandit earns more",
    "worse": "The bandit earns less",
    "open": "Not decided yet",
    "too few": "Too few rewards to tell",
    "suspect": "The comparison cannot be trusted",
    "none": "Nothing to compare with",
}
_CHANGES = 50  # that are listed


def write(found: Gathered, path: str | os.PathLike[str]) -> Path:
    """Write a report to a file, whose suffix says what it is: ``.html`` or ``.md``."""
    place = Path(path)
    place.write_text(document(found, form_of(place)), encoding="utf-8", errors="replace")
    return place


def form_of(path: str | os.PathLike[str]) -> str:
    """Return what a file is to be by its suffix, ``"html"`` or ``"md"``."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".htm", ".md"):
        raise ValueError(f"the report's file is {os.fspath(path)!r}; give one that ends in .html or .md")
    return "md" if suffix == ".md" else "html"


def document(found: Gathered, form: str = "html") -> str:
    """Return a report as one page: ``"html"``, which holds all that it shows, or ``"md"``."""
    report = Report(f"{escape(found.name)}: what it earned and learned", list(_sections(found)))
    return page.one_page(report) if form == "html" else page.markdown(report)


def _sections(found: Gathered) -> Iterator[Section]:
    yield Section("In short", list(_short(found)))
    yield Section("What it earned", list(_earned(found)))
    yield Section("What was learned", list(_learned(found)))
    yield Section("What moved", list(_moved(found)))
    yield Section("Traffic", list(_traffic(found)))
    yield Section("What was changed", list(_changes(found)))
    yield Section("What to do next", [Text("\n".join(f"- {one}" for one in _next(found)))])


def _short(found: Gathered) -> Iterator[Part]:
    period = f"From {shown(found.begin)} to {shown(found.end)}" + (" (UTC)" if found.end > 1e8 else "")
    if not found.all_decisions and not found.learned:
        yield Text(f"{period}. **Nothing was decided yet**, so there is nothing to report.")
        return
    since = (
        ""
        if found.whole or found.since >= found.begin
        else (f" Decisions are added up in blocks: what is counted here begins at {shown(found.since)}.")
    )
    yield Text(
        f"{period}: {found.decisions:,} decisions, {found.rewards:,} of them with a reward; {found.all_decisions:,} "
        f"decisions in all.{since}"
    )
    up, write = found.uplift, difference_of(found.kind)
    verdict = f"**{_VERDICTS[up.verdict]}**"
    if up.verdict in ("better", "worse", "open"):
        relative = "" if up.relative is None else f", {100 * up.relative[0]:+.1f} %"
        verdict += f", compared with {_SIDES[str(up.over)]}: {write(up.mean)} per decision{relative} "
        verdict += f"({100 * up.level:g} %: {between(up.low, up.high, write)})"
    moved = {"moved": "something has moved", "still": "nothing has moved"}
    drift = moved.get(found.checkup.drift.verdict, "too few rewards to tell whether anything has moved")
    lines = [verdict, f"**Drift**: {drift}", f"**Rewards still to come**: {found.to_come:,}"]
    yield Text("\n".join(f"- {line}." for line in lines))


def _earned(found: Gathered) -> Iterator[Part]:
    write = reward_of(found.kind)
    words = found.uplift.words
    yield Text(escape(f"{words[0].upper()}{words[1:]}.", longest=2_000))
    if found.earned:
        rows = [
            [_SIDES[side], f"{count:,}", write(mean), between(low, high, write)]
            for side, (count, mean, low, high) in found.earned.items()
        ]
        caption = (
            "Of the decisions of the period, as far as it is settled what they earned; intervals of 95 %, valid at "
            "every look"
        )
        yield Table(["who decided", "rewards", "mean reward", "interval"], rows, caption)
        if len(found.earned) > 1:
            yield Text(
                "The means of the table are of all decisions of the period. The difference above weighs both sides "
                "alike, and is the one to go by."
            )
    if any(len(line) > 1 for line in found.lines.values()):
        svg = charts.over_time(found.lines, _SIDES, write)
        yield Drawing(svg, "Mean reward of a decision over time, with 95 % bands.")
    lag = "" if found.lag is None else f" Half of the rewards take {duration(found.lag)} or less."
    if found.to_come:
        yield Text(
            f"{found.to_come:,} decisions are too young to count: their rewards may still come, and are in no mean "
            f"here.{lag}"
        )
    if found.pseudo > 0.5:
        yield Text(f"{found.pseudo:,.0f} pseudo-rewards, of levels that new ones started like, are in no number here.")


def _learned(found: Gathered) -> Iterator[Part]:
    if not found.believes:
        yield Text(
            "The policy of this bandit has no model of what combinations earn, so there is nothing to show here."
        )
        return
    matters = found.checkup.matters
    yield Text(escape(matters.words, longest=2_000))
    if found.provisional is not None:
        yield Text(
            f"**Provisional**: {found.provisional:.0%} of the decisions still wait for a reward. Who earns something "
            "says so at once, who does not only when the window has ended: until then the means below are too high."
        )
    if found.best and found.learned:
        yield _best_table(found)
        if found.contexts_left_out:
            yield Text(f"{found.contexts_left_out:,} other contexts, which have fewer rewards, are left out.")
    write = reward_of(found.kind)
    if not matters.known:
        return
    for mode in found.modes:
        if len(mode.levels) > 1:
            left = f" {mode.left_out:,} levels in between are left out." if mode.left_out else ""
            words = (
                f"**{escape(mode.name)}**: mean reward of each level with typical partners, with 90 % intervals.{left}"
            )
            yield Drawing(charts.levels(mode, write), words, [*_level_rows(mode, found)])
    alike = [
        f"- **{escape(mode.name)}**: {'; '.join(listed([escape(one) for one in group]) for group in mode.alike)}"
        for mode in found.modes
        if mode.alike
    ]
    if alike:
        yield Text("Levels that are **interchangeable**, as far as is known:")
        yield Text("\n".join(alike))
    else:
        yield Text("No levels are known to be interchangeable.")


def _level_rows(mode: ModeFound, found: Gathered) -> Iterator[list[str]]:
    write = reward_of(found.kind)
    yield [escape(mode.name), "mean reward", "interval", "rewards"]
    for one in mode.levels:
        retired = " (retired)" if one.retired else ""
        yield [
            f"{escape(one.label)}{retired}",
            write(one.mean),
            between(one.low, one.high, write),
            f"{one.rewards:,.0f}",
        ]


def _best_table(found: Gathered) -> Table:
    write = reward_of(found.kind)
    rows = []
    for one in found.best:
        first = one.arms[0]
        rows.append(
            [
                *(escape(label) for label in one.context),
                escape(" · ".join(first.labels), longest=90),
                write(first.mean),
                between(first.low, first.high, write),
                f"{first.rewards:,.0f}",
                _how_sure(one),
            ]
        )
    header = [*map(escape, found.names[0]), " · ".join(map(escape, found.names[1])), "mean reward", "interval"]
    caption = "The best arm of each context, with 90 % intervals of what is believed"
    return Table([*header, "rewards", "how sure"], rows, caption)


def _how_sure(best: BestArms) -> str:
    if best.sure:
        return "leads" if len(best.arms) > 1 else "the only one"
    return f"leading, not sure: {escape(' · '.join(best.arms[1].labels), longest=60)} is next"


def _moved(found: Gathered) -> Iterator[Part]:
    yield Text(escape(found.checkup.words, longest=2_000))
    write = reward_of("bernoulli" if str(found.kind).startswith("revenue") else found.kind)
    rows = [
        [
            "everything" if one.mode is None else escape(f"{one.mode}: {one.label}"),
            write(one.before),
            write(one.after),
            f"{one.ago:,}",
        ]
        for one in found.checkup.moved
    ]
    if rows:
        yield Table(["what", "before", "since", "rewards ago"], rows, "Mean rewards of the same combinations")


def _traffic(found: Gathered) -> Iterator[Part]:
    decided = [mode for mode in found.modes if not mode.context]
    if not found.decisions or not decided:
        yield Text(
            "No decisions in this period." if not found.decisions else "Shares are known of policies that have a model."
        )
        return
    for mode in decided:
        some = sorted(mode.levels, key=lambda one: -one.share)
        before = [] if found.whole else ["before"]
        rows = [
            [escape(one.label) + (" (retired)" if one.retired else ""), share(one.share)]
            + ([share(one.before)] if before else [])
            for one in some
        ]
        yield Table([escape(mode.name), "share of decisions", *before], rows)


def _changes(found: Gathered) -> Iterator[Part]:
    changes = found.changes
    if not changes:
        yield Text("Nothing was changed in this period.")
        return
    known = any(one.by for one in changes)  # in process nobody is named
    rows = [
        [shown(one.time), *([escape(one.by or "not known")] if known else []), escape(one.words, longest=200)]
        for one in changes[:_CHANGES]
    ]
    yield Table(["when (UTC)", *(["who"] if known else []), "what"], rows)
    if len(changes) > _CHANGES:
        yield Text(f"{len(changes) - _CHANGES:,} earlier ones are left out.")


def _next(found: Gathered) -> Iterator[str]:
    """What to do, the most urgent first."""
    up = found.uplift
    if not found.all_decisions and not found.learned:
        yield "Ask for a first decision, and tell what it earned."
        return
    if up.verdict == "suspect":
        yield (
            "Find out why the sides have not the shares, or not the rewards, that they should have: until then no "
            "difference can be believed."
        )
    if up.verdict == "worse":
        yield (
            "Find out why the bandit earns less: has its reward the sign that it should have, and is what it plays "
            "really shown?"
        )
    if up.verdict == "none" or not (found.holdout or (found.rollout is not None and found.rollout < 1)):
        yield "Keep a holdout, so that it is known what the bandit makes: `bandit.change(holdout=0.05)`."
    if found.rollout is not None and found.rollout < 1 and up.verdict in ("better", "open", "none", "too few"):
        words = "Go up a step" if up.verdict == "better" else "Go on until it is decided, or go up a step"
        yield f"{words}: the bandit decides for {share(found.rollout)} of the visitors now, `bandit.change(rollout=…)`."
    for one in found.checkup.actions:
        yield f"{escape(one.words[0].upper() + one.words[1:], longest=300)}: `{one.python.replace('`', '')}`."
    doubtful = [best for best in found.best if not best.sure]
    matters = found.checkup.matters
    if matters.needed and math.isfinite(matters.needed) and not matters.known:
        yield "Let the bandit go on: more rewards are needed before anything can be said of what matters."
    elif doubtful and len(found.best) > 1:
        yield (
            f"Nothing by hand where the best arm is not sure yet ({len(doubtful)} of {len(found.best)} contexts): the "
            "bandit goes on trying."
        )
    if up.verdict == "better" and not found.checkup.actions:
        yield "Leave it as it is: it earns more than what it is compared with."
