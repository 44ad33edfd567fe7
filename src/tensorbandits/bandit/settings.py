"""From what a caller says of a bandit, in JSON, to the arguments of a bandit; and what may be changed later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tensorbandits.bandit.shares import Share, Shares
from tensorbandits.bandit.spans import Span
from tensorbandits.base.checks import is_sequence
from tensorbandits.policies import registry
from tensorbandits.policies.base import Policy
from tensorbandits.space import Numeric, Space
from tensorbandits.space.labels import Label, key, plain, read, written

Settings = dict[str, Any]

CHANGEABLE = (
    *("holdout", "floors", "ceilings", "baseline", "window", "default", "apprentice", "rollout"),
    *("half_life", "paused"),
)
_SERVED = ("new_actions",)  # how many levels requests of the rank and reward interface may bring a mode to
_BANDIT = ("ring", "holdout", "window", "default", "adds", "half_life", "capacity", "remember")
_POLICY = ("reward", "rank", "structure")


class SettingsAfter(NamedTuple):
    """Settings after a change, and what follows from them."""

    settings: Settings
    shares: Shares
    window: Span | None
    default: float | None
    half_life: Span | None


def arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of the bandit that settings describe; raise for what cannot be."""
    space = Space(
        {
            mode: Numeric.read(levels) if isinstance(levels, Mapping) else [read(label) for label in levels]
            for mode, levels in settings["modes"].items()
        },
        settings.get("context") or (),
        features={mode: pairs_of(levels) for mode, levels in (settings.get("features") or {}).items()},
    )
    for rule in settings.get("rules") or ():
        ((what, labels),) = read_rule(rule).items()
        getattr(space, what)(labels)
    record = _record(settings.get("policy") or "thompson")
    more = settings.get("settings") or {}
    if unknown := sorted(set(more) - set(record.settings)):
        raise ValueError(f"settings has {unknown[0]!r}; {record.name!r} takes {', '.join(record.settings)}")
    given = {name: settings[name] for name in (*_BANDIT, *_POLICY) if settings.get(name) is not None}
    if isinstance(given.get("rank"), list):
        given["rank"] = tuple(given["rank"])
    shares = {name: parts_of(settings[name]) for name in ("floors", "ceilings") if settings.get(name) is not None}
    if settings.get("baseline") is not None:
        shares["baseline"] = baseline_of(settings["baseline"])
    rollout = (settings.get("rollout") or 0.0) if settings.get("apprentice") else None
    own = {"rollout": rollout, "paused": settings.get("paused") or False}
    return {"space": space, "policy": record.kind, **given, **shares, **own, **more}


def _record(name: str) -> registry.PolicyRecord:
    """The policy of a name; never one by its place in a module, which would run code that a caller chooses."""
    known = {one.name: one for one in registry.records()}
    if name not in known:
        raise ValueError(f"policy is {name!r}; give one of {sorted(known)}")
    return known[name]


def _refuse_sampled(policy: Policy, shares: Shares, settings: Settings) -> None:
    """Refuse settings that need a policy which samples."""
    wants = "ceilings" if shares.ceilings else "apprentice" if settings.get("apprentice") else None
    if wants is not None and not policy.traits.samples:
        raise ValueError(
            f"{wants} is given, but {type(policy).__name__} draws by itself; use one that samples, such as 'thompson'"
        )


def changed(space: Space, policy: Policy, settings: Settings, given: Mapping[str, Any]) -> SettingsAfter:
    """Return settings after a change; raise for what cannot be, or cannot be changed."""
    if unknown := sorted(set(given) - {*CHANGEABLE, *_SERVED}):
        raise ValueError(f"{unknown[0]!r} cannot be changed, but {', '.join(CHANGEABLE)}; make another bandit")
    merged = {**settings, **given}
    if not merged.get("apprentice"):
        if merged.get("rollout") is not None and ("rollout" in given or "apprentice" not in given):
            raise ValueError(
                f"rollout is {merged['rollout']!r}, but this bandit is no apprentice: it makes all decisions already; "
                "to start gradually beside your own rule, give apprentice=true too"
            )
        merged.pop("rollout", None)  # who becomes an apprentice again starts from nothing
    holdout, paused = merged.get("holdout") or 0.0, merged.get("paused", False)
    paused = False if paused is None else paused
    used = holdout or paused  # else one of before waits until something is held out again
    baseline = (merged if used else given).get("baseline")
    shares = Shares.of(
        space,
        floors=parts_of(merged.get("floors") or ()),
        ceilings=parts_of(merged.get("ceilings") or ()),
        baseline=baseline_of(baseline or "uniform"),
        holdout=holdout,
        rollout=(merged.get("rollout") or 0.0) if merged.get("apprentice") else None,
        paused=paused,
    )
    _refuse_sampled(policy, shares, merged)
    window, default = Span.of(merged.get("window"), "window"), merged.get("default")
    if default is not None and window is None:
        raise ValueError(f"default is {default!r}, but no window is given, after which to tell it: give window='1 h'")
    half_life = Span.of(merged.get("half_life"), "half_life", whole=False)
    if half_life is not None and "half_life" in given and (why := policy.keeps()) is not None:
        raise ValueError(f"half_life is given, but {why}")
    return SettingsAfter(merged, shares, window, None if default is None else policy.check_reward(default), half_life)


def described(
    space: Space, shares: Shares, window: Span | None, default: float | None, half_life: Span | None
) -> Settings:
    """Return what may be changed of a bandit that was made in process, as JSON would have it."""

    def parts(some: Sequence[Share]) -> list[dict[str, Any]]:
        return [
            {"labels": {space.modes[m]: written(space.levels[m][level]) for m, level in one.levels.items()}, **share}
            for one in some
            for share in [{"share": one.share}]
        ]

    return {
        "holdout": shares.holdout,
        "floors": parts(shares.floors),
        "ceilings": parts(shares.ceilings),
        "baseline": parts(shares.baseline),
        "window": None if window is None else int(window.length) if window.rounds else f"{window.length:f} s",
        "half_life": None if half_life is None else half_life.length if half_life.rounds else f"{half_life.length:f} s",
        "default": default,
        "apprentice": shares.rollout is not None,
        "rollout": shares.rollout,
        "paused": shares.paused,
    }


def written_setting(name: str, value: Any) -> Any:
    """Return the value of a setting, as a caller gives it in Python, as JSON has it."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():f} s"
    if name in ("floors", "ceilings", "baseline") and is_sequence(value):
        return [{"labels": _written_labels(labels), "share": share} for labels, share in value]
    return _written_labels(value) if name == "baseline" and isinstance(value, Mapping) else value


def _written_labels(labels: Any) -> dict[str, Any]:
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels is {labels!r}; give labels by mode: {{'offer': 'a'}}")
    for mode, label in labels.items():
        key(label, mode)  # which refuses what is no label
    return {mode: written(plain(label)) for mode, label in labels.items()}


def labels_of(given: Any) -> Any:
    """Return one label, or a list of them, as JSON held it."""
    return [read(one) for one in given] if isinstance(given, list) else read(given)


def read_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule, as JSON held it."""
    return {what: {mode: labels_of(given) for mode, given in labels.items()} for what, labels in rule.items()}


def written_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule as JSON can hold it."""

    def shown(given: Any) -> Any:
        return [written(one) for one in given] if isinstance(given, list) else written(given)

    return {what: {mode: shown(given) for mode, given in labels.items()} for what, labels in rule.items()}


def named(labels: Mapping[str, Any] | None) -> dict[str, Label]:
    """Return labels by mode, as JSON held them."""
    return {mode: read(label) for mode, label in (labels or {}).items()}


def parts_of(parts: Any) -> Any:
    """Return a share for all arms, or pairs of labels and shares."""
    return [(named(part["labels"]), part["share"]) for part in parts] if isinstance(parts, list | tuple) else parts


def baseline_of(given: Any) -> Any:
    """Return what plays the holdout: a word, an arm, or pairs of labels and shares."""
    return named(given) if isinstance(given, Mapping) else parts_of(given)


def pairs_of(levels: Any) -> Any:
    """Return labels and values of features, which JSON holds as objects with ``label`` and ``features``."""
    return None if levels is None else [(read(one["label"]), one["features"]) for one in levels]


def change_rule(space: Space, rule: Mapping[str, Any], *, add: bool) -> None:
    """Make a rule, or take it back."""
    if len(rule) != 1 or not set(rule) <= {"forbid", "allow"}:
        raise ValueError(f"the rule is {dict(rule)!r}; give either 'forbid' or 'allow', with labels by mode")
    ((what, labels),) = rule.items()
    if not add:
        space.remove_rule(rule)
    elif what == "forbid":
        space.forbid(labels)
    else:
        space.allow(labels)
