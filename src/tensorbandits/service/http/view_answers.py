"""The views of the page as OpenAPI describes them, one model each, so that programs that show the same are typed too.

What is not known is null: a mean without rewards, an interval without a mean. Times are seconds since 1970. Later
releases may add members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, Field

from tensorbandits.bandit.apprentice import Judgement
from tensorbandits.bandit.intervals import Looks
from tensorbandits.bandit.uplift import Verdict
from tensorbandits.service.http.schemas import By, Duration, Label, Number, PolicyName, RewardKind

Side = Literal["policy", "holdout", "caller"]


class ViewMean(BaseModel):
    """A mean, with the bounds of its interval."""

    mean: float | None
    low: float | None
    high: float | None


class ViewSide(ViewMean):
    """What one side decided and earned."""

    decisions: int
    rewards: int


class ViewRatio(BaseModel):
    """Whether a side has the share of decisions that was set."""

    seen: float
    expected: float
    evidence: float | None
    fits: bool


class UpliftView(ViewMean):
    """How much more the policy earns per decision than the side that it is compared with."""

    over: Side | None
    verdict: Verdict
    intervals: Looks
    level: float
    policy: ViewSide | None
    other: ViewSide | None
    to_come: int
    unrewarded: int
    ratio: ViewRatio | None
    words: str


class WholeUplift(UpliftView):
    """The same, for the page, with the share of what the other side earns."""

    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None


class RelativeUplift(UpliftView):
    """The same, with the share of what the other side earns, and its bounds."""

    relative: list[float | None] | None


class ViewMode(BaseModel):
    """A mode, with its levels by index."""

    mode: str
    context: bool
    levels: list[str]
    retired: list[int] = Field(description="Indices of retired levels.")


class SpaceView(BaseModel):
    """Modes, levels, rules in words, and settings."""

    modes: list[ViewMode]
    rules: list[str]
    policy: PolicyName
    kind: RewardKind | None
    settings: dict[str, Any]
    example: dict[str, Label] = Field(description="A context, as a request gives it.")
    version: str = Field(description="Another text after every change of levels, rules and settings.")


class ViewLag(BaseModel):
    """Seconds from decision to reward: quantiles of the last rewards."""

    count: int
    p50: float
    p90: float
    p99: float


class ViewEvent(BaseModel):
    """An event, in labels."""

    seq: int
    time: float
    kind: str
    decision: str | None
    labels: list[str] | None
    would: list[str] | None
    reward: float | None
    by: By | None
    propensity: float | None
    actor: str | None
    words: str


class OverviewView(BaseModel):
    """The numbers that are seen first."""

    kind: RewardKind | None
    decisions: int
    rewards: int
    learned: float
    pseudo: float
    waiting: int
    provisional: float | None = Field(
        description="The share of decisions that still wait, where it is so large that beliefs are too high."
    )
    settled: float | None = Field(description="The share of decisions that the means are of.")
    to_come: int
    policy: ViewSide
    holdout: ViewSide | None
    caller: ViewSide | None
    uplift: WholeUplift | None
    intervals: Looks
    lag: ViewLag | None
    first_time: float | None
    last_time: float | None
    last_event: ViewEvent | None
    spark: list[float]
    version: str = Field(description="Another text after every change of levels, rules and settings.")
    apprentice: bool
    rollout: float | None
    paused: bool
    needed: int | None = Field(description="How many rewards mostly show levels that differ by about 30 %.")


class ViewPlaces(BaseModel):
    """Where points are: the numbers of their first decisions and the next ones', and when they begin and end."""

    first: list[float]
    next: list[float]
    start: list[float]
    end: list[float]


class ViewMeans(BaseModel):
    """Means over time."""

    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]


class RewardSeries(ViewPlaces, ViewMeans):
    """Mean rewards of one side over time."""

    rewards: list[float]


class UpliftSeries(ViewPlaces):
    """Uplift over time: of each point, of all up to it, and as a whole."""

    difference: ViewMeans
    so_far: ViewMeans
    whole: WholeUplift


class ViewEdge(BaseModel):
    """Where means end, as later rewards are still to come."""

    first: float
    time: float


class RewardView(BaseModel):
    """Mean rewards over time."""

    kind: RewardKind | None
    decisions: int
    settled: ViewEdge | None
    policy: RewardSeries | None
    holdout: RewardSeries | None
    caller: RewardSeries | None
    uplift: UpliftSeries | None
    apprentice: bool
    rollout: float | None
    intervals: Looks


class ViewNamed(BaseModel):
    """A level that is shown by name."""

    level: int
    text: str


class TrafficView(BaseModel):
    """The share of decisions that each level of a mode had over time."""

    mode: str
    decisions: int
    levels: list[ViewNamed]
    others: int = Field(description="How many levels the last row stands for.")
    first: list[float]
    next: list[float] = []
    start: list[float]
    end: list[float]
    side: Side | None = None
    shares: list[list[float]] = Field(description="A row for each level.")
    totals: list[float]


class WhyNot(BaseModel):
    """Why there is nothing to show."""

    kind: RewardKind | None = None
    why: str


class HeatView(BaseModel):
    """Estimates of two modes; what may not be chosen is null."""

    kind: RewardKind | None
    level: float
    rewards: float
    modes: list[str]
    rows: list[str]
    columns: list[str]
    left_out: list[int]
    estimate: list[list[float | None]]
    width: list[list[float | None]] | None
    others: str


class EffectPart(BaseModel):
    """A part of an effect."""

    mean: float | None
    low: float | None
    high: float | None


class EffectLevel(BaseModel):
    """What is believed of a level."""

    text: str
    retired: bool
    reward: float | None
    low: float | None
    high: float | None
    effect: float | None
    own: float | None = Field(description="The share of that which comes from its own rewards.")
    rewards: float
    by_features: EffectPart | None = Field(default=None, description="What features say of the effect.")
    by_itself: EffectPart | None = Field(default=None, description="The rest of it, which is the level's own.")


class FeaturePart(BaseModel):
    """How much of what levels differ by a feature explains."""

    feature: str
    share: float | None
    low: float | None
    high: float | None


class FeaturesSaid(BaseModel):
    """How much of what levels differ by their features explain, and which; the more telling first."""

    share: float | None
    low: float | None
    high: float | None
    left_out: int
    parts: list[FeaturePart]


class EffectMode(BaseModel):
    """The levels of a mode, the best first."""

    mode: str
    context: bool
    left_out: int
    middle: float | None
    features: FeaturesSaid | None = None
    levels: list[EffectLevel]
    alike: list[list[str]]


class Interaction(BaseModel):
    """A share of what differs that is due to modes, alone or acting together."""

    part: str
    modes: int
    share: float | None
    low: float | None
    high: float | None


class EffectsView(BaseModel):
    """Main effects and interactions."""

    kind: RewardKind | None
    level: float
    rewards: float
    pseudo: float
    scale: str
    modes: list[EffectMode]
    interactions: list[Interaction]


class ViewArm(BaseModel):
    """An arm among the best."""

    labels: list[str]
    estimate: float | None
    low: float | None
    high: float | None
    rewards: float


class ArmsView(BaseModel):
    """The best arms."""

    kind: RewardKind | None
    level: float
    rewards: float
    context: dict[str, int]
    modes: list[str]
    arms: list[ViewArm]


class OldDecision(BaseModel):
    """A decision that waits for its reward."""

    id: str
    time: float
    age: float
    active: bool
    labels: list[str]


class LagBar(BaseModel):
    """How many of the last rewards took so many seconds."""

    from_: float = Field(alias="from")
    to: float | None
    count: int


class DecisionsView(BaseModel):
    """Decisions that wait, and how long rewards take."""

    waiting: int
    window: Duration | None
    modes: list[str]
    oldest: list[OldDecision]
    lag: ViewLag | None
    bars: list[LagBar]


class ViewMoved(BaseModel):
    """A level whose rewards have changed; of no mode where all have."""

    mode: str | None
    label: str | None
    ago: float
    before: float
    after: float


class DriftView(BaseModel):
    """What has moved, and which structure the rewards speak for."""

    words: str
    moved: list[ViewMoved]
    evidence: float | None
    news: float
    rewards: float
    kind: RewardKind | None = None
    structure: str | None = None
    suggested: str | None = None
    rank: Number | list[int] | None = None


class ApprenticeView(BaseModel):
    """What the bandit would have earned beside the caller's own rule."""

    on: bool
    rollout: float | None
    kind: RewardKind | None
    waiting: int
    intervals: Looks
    count: int
    verdict: Judgement
    model: ViewMean | None
    support: float | None
    steps: list[float]
    uplift: WholeUplift | None
    bandit: ViewMean | None
    rule: ViewMean | None
    difference: ViewMean | None
    bounded: bool | None = None


class EventsView(BaseModel):
    """The newest events."""

    modes: list[str]
    events: list[ViewEvent]


class ViewDecider(BaseModel):
    """A decider that asked this process for snapshots, or sent it decisions, within the last ten minutes."""

    name: str
    last: Number = Field(description="When it was heard of last.")
    version: int | None = Field(description="Of the newest snapshot that it is known to have.")
    decisions: int = Field(description="That it sent and were new.")


class DecisionsMade(BaseModel):
    """Decisions, by where they were made."""

    here: int
    elsewhere: int


class DecidersView(BaseModel):
    """The snapshots that deciders get, who they are, and how fast what they send is learned."""

    address: str | None = Field(description="Where snapshots are published, besides over HTTP.")
    every: Number = Field(description="Seconds between two of them, at least.")
    version: int | None = Field(description="Of the newest snapshot; null if none was asked for yet.")
    bytes: int | None
    age: Number | None = Field(description="Of the newest snapshot, in seconds.")
    events_since: int | None = Field(description="Events of the log that it does not know.")
    failed: str | None = Field(description="Why it could not be made, or published, the last time.")
    deciders: list[ViewDecider]
    decisions: DecisionsMade
    events_a_second: Number = Field(description="Of the log, over the last minute.")
    learning_lag: Number = Field(description="Seconds since when decisions do not know what came.")


class HealthView(BaseModel):
    """How the process and the bandit are doing, in numbers and texts by name."""

    numbers: dict[str, Number | str]


VIEWS: dict[str, tuple[type[BaseModel], ...]] = {  # what each may answer
    "space": (SpaceView,),
    "overview": (OverviewView,),
    "uplift": (RelativeUplift,),
    "reward": (RewardView,),
    "traffic": (TrafficView,),
    "heat": (HeatView, WhyNot),
    "effects": (EffectsView, WhyNot),
    "arms": (ArmsView, WhyNot),
    "decisions": (DecisionsView,),
    "drift": (DriftView,),
    "apprentice": (ApprenticeView,),
    "events": (EventsView,),
    "deciders": (DecidersView,),
    "health": (HealthView,),
}


def schemas(template: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schema of every model, and of those inside, by name."""
    for model in dict.fromkeys(model for models in VIEWS.values() for model in models):
        made = model.model_json_schema(ref_template=template, mode="serialization")
        yield from made.pop("$defs", {}).items()
        yield model.__name__, made
