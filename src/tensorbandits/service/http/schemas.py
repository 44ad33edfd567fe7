"""The bodies of requests and answers, as OpenAPI describes them. What values mean is checked by the library itself."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from typing_extensions import TypeAliasType

from tensorbandits.model.gibbs import Structure as StructureName
from tensorbandits.model.rewards import Reward
from tensorbandits.policies import registry
from tensorbandits.service.http import examples
from tensorbandits.service.http.errors import CODES

MOST_LABELS = 10_000  # of one mode in a request
MOST_TOGETHER = 100_000  # of all modes and decisions in a request
_SEVERAL = Field(max_length=MOST_LABELS, fail_fast=True)  # the first that is wrong is reason enough


def _written(kind: type[datetime.date]) -> AfterValidator:
    """Refuse text that is no day, or no time, before anything is made of it."""

    def check(text: str) -> str:
        try:
            kind.fromisoformat(text)
        except ValueError:
            what, such = ("day", "2026-02-28") if kind is datetime.date else ("time", "2026-02-28T12:00:00")
            raise ValueError(f"{text[:60]!r} is no {what}; write it as in {such}") from None
        return text

    return AfterValidator(check)


class DateLabel(BaseModel):
    """A label that is a day."""

    model_config = ConfigDict(extra="forbid")
    date: Annotated[StrictStr, _written(datetime.date)] = Field(max_length=40, examples=["2026-02-28"])


class TimeLabel(BaseModel):
    """A label that is a time."""

    model_config = ConfigDict(extra="forbid")
    time: Annotated[StrictStr, _written(datetime.datetime)] = Field(max_length=40, examples=["2026-02-28T12:00:00"])


Text = Annotated[StrictStr, Field(max_length=1_000)]
Label = TypeAliasType("Label", Text | StrictBool | StrictInt | StrictFloat | DateLabel | TimeLabel)
Labels = Annotated[dict[Text, Label], Field(max_length=100)]
Given = Annotated[dict[Text, Label | None], Field(max_length=100)]
Choices = Annotated[dict[Text, Annotated[list[Label], _SEVERAL]], Field(max_length=100)]
Number = StrictInt | StrictFloat
FeatureValue = TypeAliasType(
    "FeatureValue",
    Text
    | StrictBool
    | StrictInt
    | StrictFloat
    | Annotated[list[Number], Field(max_length=1_000, fail_fast=True)]
    | None,
)
FeatureValues = Annotated[dict[Text, FeatureValue], Field(max_length=1_000)]
Id = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Name = Annotated[
    StrictStr,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="Letters, digits, dots, hyphens and underscores; at most 100 of them.",
        examples=["offers"],
    ),
]
Duration = StrictStr | StrictInt


def _policies(schema: dict[str, Any]) -> None:
    """List the policies that there are; one that was registered since joins them."""
    schema["enum"] = [record.name for record in registry.records()]


# Words that mean something to programs, which OpenAPI lists.

PolicyName = Annotated[StrictStr, Field(json_schema_extra=_policies, examples=["thompson"])]
RewardKind = Annotated[StrictStr, Field(json_schema_extra={"enum": list(get_args(Reward))}, examples=["bernoulli"])]
Structure = Annotated[StrictStr, Field(json_schema_extra={"enum": list(get_args(StructureName))})]
Code = Annotated[str, Field(json_schema_extra={"enum": list(CODES)})]
By = Literal["policy", "floor", "holdout", "caller"]
Status = Literal["inactive", "open", "rewarded", "timed out", "cancelled"]


class Body(BaseModel):
    """A request: nothing but what is known is taken."""

    model_config = ConfigDict(extra="forbid")

    def given(self) -> dict[str, Any]:
        """Return what the caller gave, as plain data."""
        return self.model_dump(exclude_unset=True)

    def meant(self) -> dict[str, Any]:
        """Return what the caller gave without fields that have their defaults: what identifies the request."""
        return self.model_dump(exclude_unset=True, exclude_defaults=True)


class SharePart(Body):
    """A share of decisions for the arms with these labels."""

    labels: Labels = Field(examples=[{"channel": "sms"}])
    share: float = Field(ge=0, le=1, examples=[0.05])


ShareParts = Annotated[list[SharePart], _SEVERAL]


class RuleBody(Body):
    """Either what is forbidden together, or what alone is allowed where the single labels are met."""

    forbid: Labels | None = Field(default=None, examples=[{"offer": "video", "channel": "sms"}])
    allow: Annotated[dict[Text, Label | Annotated[list[Label], _SEVERAL]], Field(max_length=100)] | None = Field(
        default=None, examples=[None]
    )

    def rule(self) -> dict[str, Any]:
        """Return the rule, of one kind."""
        given = {what: labels for what, labels in self.given().items() if labels is not None}
        if len(given) != 1:
            raise ValueError(f"the rule is {given!r}; give either forbid or allow, with labels by mode")
        return given


class Changes(Body):
    """What of a bandit may be changed while it runs."""

    holdout: float | None = Field(default=None, ge=0, lt=1, description="The share of decisions of the baseline.")
    floors: float | ShareParts | None = Field(default=None, description="Shares that arms get at least.")
    ceilings: ShareParts | None = Field(default=None, description="Shares that arms get at most.")
    baseline: StrictStr | Labels | ShareParts | None = Field(default=None, description="What the holdout plays.")
    window: Duration | None = Field(default=None, examples=["10 min"], description="How long a decision waits.")
    default: Number | None = Field(default=None, examples=[0], description="The reward when the window has ended.")
    apprentice: StrictBool | None = Field(default=None, description="Whether it runs beside a caller's own rule.")
    rollout: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        examples=[0.05],
        description="Apprentices: the share of decisions that the bandit makes, drawn at random; the caller's rule "
        "makes the rest. 0 only watches.",
    )
    paused: StrictBool | None = Field(
        default=None,
        description="Whether the baseline makes all decisions for now, or, of an apprentice, the caller's rule. "
        "Rewards are learned from all the same.",
    )
    half_life: Duration | StrictFloat | None = Field(
        default=None, description="After which a reward counts half: a duration, or rewards.", examples=["14 d"]
    )

    def meant(self) -> dict[str, Any]:
        """Return what the caller gave, nulls too: they take a setting away, where none leaves it as it is."""
        return self.given()


class NumericMode(Body):
    """A mode of numbers that requests bring: its levels are regions that are learned from them, or given by cuts."""

    numbers: Annotated[list[Text], Field(max_length=20)] = Field(
        default=[], description="Names of the numbers; that of the mode if there are none.", examples=[["age"]]
    )
    regions: StrictInt = Field(default=8, ge=2, le=200, description="How many regions are learned.")
    requests: StrictInt = Field(default=200, ge=10, le=100_000, description="From how many requests.")
    cuts: Annotated[list[Number], Field(min_length=2, max_length=201)] | None = Field(
        default=None, description="Of one number, between which values its regions lie.", examples=[[18, 30, 45, 65]]
    )
    partition: dict[Text, list[Any]] | None = Field(
        default=None, description="Regions that were learned elsewhere, as the client writes them.", examples=[None]
    )
    splits: Annotated[list[tuple[Text, Number, Text]], Field(max_length=1_000)] = Field(
        default=[], description="Regions of these that were split: region, value and number.", examples=[[]]
    )


class DescribedLevel(Body):
    """What a level is like: values of features by name; null where one is missing."""

    label: Label = Field(examples=["a"])
    features: FeatureValues = Field(examples=[{"price": 9.9, "brand": "Acme", "image": [0.1, 0.7]}])


DescribedLevels = Annotated[list[DescribedLevel], _SEVERAL]


class CreateBandit(Changes):
    """A new bandit; the fields mean what the arguments of ``tb.Bandit`` and of its policy do."""

    model_config = ConfigDict(json_schema_extra={"examples": [examples.OFFERS]})
    name: Name
    modes: Annotated[
        dict[Text, Annotated[list[Label], Field(fail_fast=True)] | NumericMode],
        Field(min_length=1, max_length=20, description="Modes and their levels, or the numbers that requests bring."),
    ]
    context: Annotated[list[Text], _SEVERAL] = Field(default=[], description="The modes that are given, not decided.")
    features: Annotated[dict[Text, DescribedLevels], Field(max_length=20)] = Field(
        default={},
        description="What the levels of some modes are like, by mode; for the policy thompson, which learns how much "
        "that says of their rewards.",
        examples=[{"offer": [{"label": "a", "features": {"price": 9.9}}, {"label": "b", "features": {"price": 5}}]}],
    )
    policy: PolicyName = Field(default="thompson", description="What it takes is in `settings`.")
    reward: RewardKind | None = Field(
        default=None,
        description='What a reward is: "gaussian" (any number), "bernoulli", "binomial", "count", "revenue" (mostly 0, '
        'else an amount above 0) or "revenue-signed" (amounts may be negative).',
        examples=["bernoulli"],
    )
    rank: StrictStr | StrictInt | Annotated[list[StrictInt], _SEVERAL] | None = Field(
        default=None, description='Of the tensor: "auto", a number, or one for each mode.', examples=["auto"]
    )
    structure: Structure | None = Field(default=None, description="Without it, learned.", examples=["tucker"])
    settings: dict[Text, Any] = Field(default={}, description="Further arguments of the policy.", examples=[{}])
    ring: StrictInt | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="How many recent draws a decision is drawn from; probabilities are multiples of 1 / ring.",
    )
    adds: StrictBool | None = Field(default=None, description="Whether rewards of one decision may add up.")
    capacity: StrictInt | None = Field(
        default=None, ge=1, le=100_000_000, description="Decisions that may wait at once; beyond, the oldest is closed."
    )
    remember: StrictInt | None = Field(
        default=None, ge=0, le=100_000_000, description="Closed decisions that are kept, so that late rewards count."
    )
    rules: Annotated[list[RuleBody], _SEVERAL] = Field(
        default=[], description="Which combinations may not be chosen, or alone may be."
    )


class AskBody(Body):
    """A request for a decision."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"context": {"segment": "new"}}]})
    context: Given = Field(
        default={}, description="The label of each context mode; of a mode of numbers these, null where one lacks."
    )
    allowed: Choices | None = Field(default=None, description="The labels that may be chosen, by mode.")
    id: Id | None = Field(default=None, description="An id of yours; the same again gives the same decision.")
    activate: StrictBool = Field(default=True, description="Whether it is shown at once.")
    played: Labels | None = Field(default=None, description="Apprentices: the arm that your own rule plays.")
    propensity: float | None = Field(
        default=None, ge=1e-9, le=1, description="Apprentices: the probability of that, at least 1e-9."
    )
    subject: Id | None = Field(
        default=None,
        description="Whom it is for, by an id of yours: who decides is drawn once for each. It is kept apart, to find "
        "and remove what is known of a person.",
    )


def _pause(value: Any) -> Any:
    """Return what is given: a call of Python, in which other threads get their turn."""
    return value


_PAUSE = AfterValidator(_pause)


class AskManyBody(Body):
    """Several requests for decisions."""

    requests: Annotated[list[Annotated[AskBody, _PAUSE]], Field(max_length=1_000, fail_fast=True)] = Field(
        examples=[[{"context": {"segment": "new"}}]]
    )

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        count = sum(len(labels) for one in self.requests if one.allowed for labels in one.allowed.values())
        if count > MOST_TOGETHER:
            raise ValueError(
                f"the requests have {count:,} labels in allowed; give at most {MOST_TOGETHER:,} together, or make rules"
            )
        return self


class TellBody(Body):
    """A reward: of a decision by its id, or of an arm and a context."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "9f2c51ab03d7-0", "reward": 1}, examples.BODIES["tell"]["of an arm"]]}
    )
    id: Id | None = None
    reward: Number
    amend: StrictBool = Field(default=False, description="Whether it replaces the reward that was told.")
    add: StrictBool = Field(default=False, description="Whether it adds to the reward that was told.")
    arm: Labels | None = None
    context: Given | None = None
    trials: StrictInt | None = Field(default=None, ge=1, le=2**53, description="Of how many the reward is the sum.")


class TellManyBody(Body):
    """Several rewards."""

    rewards: Annotated[list[Annotated[TellBody, _PAUSE]], Field(max_length=1_000, fail_fast=True)] = Field(
        examples=[[{"id": "9f2c51ab03d7-0", "reward": 1}]]
    )


class AdoptBody(Body):
    """Decisions that a decider made elsewhere, by their ids, which are tokens that say what was decided."""

    decisions: Annotated[list[Id], Field(max_length=10_000, fail_fast=True)] = Field(examples=[["AQ5f2c.."]])
    decider: Annotated[StrictStr, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="The name of the decider, for the page.", examples=["web-1"]
    )


class Which(Body):
    """A decision."""

    id: Id = Field(examples=["9f2c51ab03d7-0"])


class Best(Body):
    """A request for what is believed best."""

    context: Given = Field(default={}, examples=[{"segment": "new"}])
    allowed: Choices | None = None


class Explain(Body):
    """What to explain."""

    context: Given | None = Field(default=None, examples=[{"segment": "new"}])
    level: float = Field(default=0.9, gt=0, lt=1)
    arms: StrictInt = Field(default=10, ge=1, le=1_000)


class Level(Body):
    """A level of a mode."""

    mode: Text = Field(examples=["offer"])
    label: Label = Field(examples=["summer"])


class NewLevel(Level):
    """A level that is added; it may start like another one."""

    like: Label | None = Field(default=None, examples=["spring"])
    rewards: float | None = Field(default=None, gt=0, description="How many of that one's rewards it starts with.")
    features: FeatureValues | None = Field(
        default=None,
        examples=[None],
        description="Of a mode with features: what it is like, so that it starts from what was learned of those.",
    )


class DescribeBody(Body):
    """What levels of a mode are like from now on; null takes the features of the mode away."""

    mode: Text = Field(examples=["offer"])
    levels: DescribedLevels | None = Field(examples=[[{"label": "a", "features": {"price": 9.9}}]])
    anew: StrictBool = Field(
        default=False, description="Whether these take the place of all features of the mode, and of its other levels."
    )


class SplitRegionBody(Body):
    """A region of a mode of numbers that is split in two."""

    mode: Text = Field(examples=["age"])
    region: Text = Field(examples=["age 30 to 45"])
    at: Number | None = Field(default=None, description="The value; its middle by default.", examples=[38])
    number: Text | None = Field(default=None, description="Of which number, if there are several.", examples=[None])


class Fold(Body):
    """Up to which event the log is folded; all of it if none is given."""

    before: StrictInt | None = Field(default=None, ge=1, le=2**62)


# Answers.


class DecisionAnswer(BaseModel):
    """A decision; tell its reward by its id."""

    id: str = Field(examples=["9f2c51ab03d7-0"])
    arm: dict[str, Label] = Field(examples=[{"offer": "a", "channel": "mail"}])
    context: dict[str, Label] = Field(examples=[{"segment": "new"}])
    propensity: float | None = Field(examples=[0.4375], description="The probability with which the arm was drawn.")
    by: By = Field(examples=["policy"], description="What drew the arm; caller is a rule of your own.")
    policy: PolicyName
    time: float = Field(examples=[1790000000.0])
    would: dict[str, Label] | None = Field(default=None, description="Apprentices: what it would have played.")


class DecisionsAnswer(BaseModel):
    """Several decisions, in the order of the requests."""

    decisions: list[DecisionAnswer]


class StatusAnswer(BaseModel):
    """A decision after it was told something."""

    id: str | None = Field(examples=["9f2c51ab03d7-0"])
    status: Status = Field(examples=["rewarded"], description="inactive until it was shown, then open until it ends.")
    reward: float | None = Field(examples=[1.0])
    changed: bool = Field(description="Whether this request has changed anything; a repeated one has not.")


class Refused(BaseModel):
    """Why one of many was refused."""

    code: Code
    message: str


class RefusedAnswer(BaseModel):
    """One of many that was refused."""

    error: Refused


class ResultsAnswer(BaseModel):
    """What became of each reward, in the order of the request."""

    results: list[StatusAnswer | RefusedAnswer]


class RefusedToken(Refused):
    """A decision that was not taken, by its place in the request."""

    at: int


class AdoptedAnswer(BaseModel):
    """What became of decisions that were made elsewhere."""

    adopted: int = Field(examples=[2], description="Decisions that are durable now, and wait for their rewards.")
    known: int = Field(examples=[0], description="Decisions that were known already.")
    refused: list[RefusedToken]


class StoryEvent(BaseModel):
    """Something that happened to a decision."""

    seq: int
    time: float
    kind: Literal["Decided", "Activated", "Cancelled", "Rewarded", "Amended", "TimedOut", "Unchanged"]
    actor: str | None = Field(description="The name of the key that did it; null in logs of early releases.")
    reward: float | None = Field(description="The reward that it gave, if any.")


class KnownDecision(StatusAnswer):
    """A decision, and what became of it."""

    arm: dict[str, Label]
    context: dict[str, Label]
    propensity: float | None
    by: By
    time: float
    story: list[StoryEvent]


class ArmAnswer(BaseModel):
    """An arm."""

    arm: dict[str, Label] = Field(examples=[{"offer": "a", "channel": "mail"}])


class Summary(BaseModel):
    """A bandit, in short."""

    name: str = Field(examples=["offers"])
    modes: dict[str, int] = Field(examples=[{"segment": 2, "offer": 3, "channel": 2}])
    context: list[str]
    policy: PolicyName | None = Field(description="null if the bandit is quarantined.")
    reward: RewardKind | None = Field(description="null if the bandit is quarantined.")
    apprentice: bool
    rollout: float | None = Field(default=None, description="Apprentices: the share of decisions that it makes.")
    paused: bool = Field(default=False, description="Whether the baseline makes all decisions for now.")
    decisions: int
    rewards: float
    waiting: int
    seq: int
    created: float
    quarantined: str | None = Field(default=None, description="Why it is not served, if its log cannot be read.")


class SummariesAnswer(BaseModel):
    """All bandits that the caller's key is for."""

    bandits: list[Summary]


class LevelAnswer(BaseModel):
    """A level."""

    label: Label
    retired: bool


class RegionsAnswer(BaseModel):
    """The regions of a mode of numbers."""

    numbers: list[str] = Field(examples=[["age"]], description="What requests give in the place of a label.")
    learning: bool = Field(description="Whether the regions are still to be learned.")
    requests: int | None = Field(description="From how many requests they are learned, if from these.")
    seen: int = Field(description="How many of these there were.")


class FeatureAnswer(BaseModel):
    """A feature of the levels of a mode."""

    name: str
    kind: Literal["number", "truth", "numbers", "category", "text"]
    columns: int = Field(description="How many numbers it becomes.")
    missing: int = Field(description="Of how many levels it is missing.")


class DescribedAnswer(BaseModel):
    """What a level is like."""

    label: Label
    features: dict[str, FeatureValue]


class FeaturesAnswer(BaseModel):
    """The features of a mode, and the values of its levels in their order; what is missing is left out."""

    mode: str
    features: list[FeatureAnswer]
    levels: list[DescribedAnswer]


class Detail(Summary):
    """A bandit, and how it is made."""

    levels: dict[str, list[LevelAnswer]]
    regions: dict[str, RegionsAnswer] = Field(default={}, description="The modes of numbers.")
    features: dict[str, list[FeatureAnswer]] = Field(default={}, description="Of the modes that have some.")
    rules: list[dict[str, dict[str, Any]]]
    rule_shares: list[float] = Field(description="The share of combinations that each rule forbids by itself.")
    settings: dict[str, Any]


class EventAnswer(BaseModel):
    """Something that happened."""

    seq: int
    time: float
    kind: str
    decision: str | None
    actor: str | None = Field(description="The name of the key that did it; null in logs of early releases.")
    body: dict[str, Any]


class EventsAnswer(BaseModel):
    """Events in their order."""

    events: list[EventAnswer]


ChangeKind = Literal[
    "Created",
    "Changed",
    "LevelAdded",
    "Described",
    "LevelRetired",
    "LevelRestored",
    "RegionsLearned",
    "RegionSplit",
    "RuleChanged",
    "Imported",
    "Skipped",
    "Forgotten",
]


class ChangedPart(BaseModel):
    """One thing that was changed: a setting, a level or a rule, before and after."""

    what: str = Field(examples=["holdout"])
    before: Any
    after: Any


class ChangeAnswer(BaseModel):
    """A change of a bandit, apart from decisions and rewards."""

    number: int = Field(description="Counts the changes of the bandit, from 1.")
    time: float = Field(description="Seconds since 1970.")
    kind: ChangeKind
    actor: str | None = Field(description="The name of the key that did it; null in logs of early releases.")
    words: str = Field(description="The change in a sentence.", examples=["holdout: from 0.1 to 0.2"])
    items: list[ChangedPart]
    undo: dict[str, Any] | None = Field(
        description="The change that puts it back, as POST .../preview takes it; null where nothing does.",
        examples=[{"settings": {"holdout": 0.1}}],
    )


class ChangesAnswer(BaseModel):
    """Changes, the newest first."""

    changes: list[ChangeAnswer]
    total: int = Field(description="How many fit the filters, on all pages.")
    next: int | None = Field(description="Give this as `before` for the next page; null on the last.")
    actors: list[str] = Field(description="All who ever changed this bandit.")
    since: int = Field(description="Changes up to this event are not known: an early release folded them away.")
    lost: int = Field(description="Old changes that are kept no more, as there were so many.")


class HistoryRow(BaseModel):
    """The decisions of one side in a block, of one level if a mode was given, and what they earned until now."""

    block: int
    first: int = Field(description="The number of the block's first decision.")
    start: float
    by: Literal["policy", "holdout", "caller"]
    level: Label | None = Field(default=None, description="Where a mode was given.")
    decisions: float
    share: float | None = Field(default=None, description="Of the block's decisions; where a mode was given.")
    rewards: float
    total: float
    mean: float | None
    error: float | None = Field(default=None, description="The mean's standard error; where no mode was given.")


class HistoryAnswer(BaseModel):
    """One row per block and side, and per level if a mode was given."""

    history: list[HistoryRow]


class EffectRow(BaseModel):
    """What is believed of a level: its effect on the scale that is named, and its mean reward with usual partners."""

    mode: str
    level: Label
    effect: float | None
    low: float | None
    high: float | None
    reward: float | None
    reward_low: float | None = None
    reward_high: float | None = None
    own: float | None = Field(default=None, description="The share of that which comes from its own rewards.")
    borrowed: float | None = Field(default=None, description="The share that comes from other levels.")
    rewards: float
    by_features: float | None = Field(default=None, description="What features say of the effect; null without any.")
    by_features_low: float | None = None
    by_features_high: float | None = None
    by_itself: float | None = Field(default=None, description="The rest of the effect, which is the level's own.")
    by_itself_low: float | None = None
    by_itself_high: float | None = None


class FeatureRow(BaseModel):
    """How much of what the levels of a mode differ by a feature explains; all together where it has no name."""

    mode: str
    feature: str
    share: float | None
    low: float | None
    high: float | None


class InteractionRow(BaseModel):
    """A share of what differs that is due to modes, alone or acting together."""

    part: str
    modes: int | None = Field(default=None, description="How many take part; 0 for all that more than two do.")
    share: float | None
    low: float | None
    high: float | None


class AlikeRow(BaseModel):
    """A level that is interchangeable with the others of its group, as far as is known."""

    mode: str
    group: int
    level: Label


class BeliefsAnswer(BaseModel):
    """What is believed; each table is a list of rows."""

    words: str
    scale: str
    effects: list[EffectRow]
    interactions: list[InteractionRow]
    alike: list[AlikeRow]
    features: list[FeatureRow] = Field(default=[], description="What features say of levels, if there are any.")
    arms: list[dict[Text, Label | None]] = Field(
        description="The best arms: their labels by mode, `place`, `estimate`, `low`, `high` and `rewards`."
    )


class MovedAnswer(BaseModel):
    """A level whose rewards have changed; of no mode where all have."""

    mode: str | None
    label: Label | None
    ago: int
    before: float
    after: float


class DiagnosisAnswer(BaseModel):
    """Which structure the rewards speak for, and which levels have moved."""

    words: str
    structure: str
    moved: list[MovedAnswer]


class Imported(BaseModel):
    """What was learned of a log; of one that was imported before, under the same key, little is known."""

    rewards: float | None
    cells: int | None
    rows: int | None
    added: dict[str, list[Label]]
    skipped: dict[str, dict[str, float]]
    changed: bool


class ForgetBody(Body):
    """Whose data are to be removed: those of one decision, or of all decisions that were made for a subject."""

    model_config = ConfigDict(json_schema_extra={"examples": list(examples.BODIES["forget"].values())})
    decision: Id | None = Field(default=None, description="The id of one decision.")
    subject: Id | None = Field(default=None, description="A subject that asks were given.")
    why: StrictStr = Field(
        min_length=1, max_length=500, description="The reason, which stays in the log: do not name the person in it."
    )
    dry_run: StrictBool = Field(default=False, description="Whether only to say what would be removed.")


class ForgottenAnswer(BaseModel):
    """What was removed, or would be. Counts, rewards and what was learned stay; decisions have other ids."""

    decisions: int
    events: int = Field(description="Of these decisions, that are still in the log.")
    cancelled: int = Field(description="Decisions that waited for a reward, and were cancelled first.")
    dry_run: bool


class Folded(BaseModel):
    """How many events were folded, and up to which."""

    folded: int
    base: int
