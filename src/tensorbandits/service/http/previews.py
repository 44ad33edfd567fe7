"""The bodies of requests that say what would be and change nothing, and of their answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from tensorbandits.service.http.schemas import (
    Body,
    Changes,
    CreateBandit,
    DescribeBody,
    Level,
    NewLevel,
    RuleBody,
    SplitRegionBody,
)
from tensorbandits.service.http.view_answers import OverviewView


class PreviewBandit(CreateBandit):
    """A bandit that is not made yet, to see what it would be like."""

    rate: float | None = Field(
        default=None, gt=0, lt=1, description="About which share of decisions earns something: clicks, purchases."
    )


class PreviewChange(Body):
    """A change that is not made yet, one of these; each has the body of the route that makes it."""

    settings: Changes | None = Field(default=None, examples=[{"holdout": 0.1}])
    add_level: NewLevel | None = Field(default=None, examples=[None])
    describe: DescribeBody | None = Field(default=None, examples=[None])
    retire_level: Level | None = Field(default=None, examples=[None])
    restore_level: Level | None = Field(default=None, examples=[None])
    split_region: SplitRegionBody | None = Field(default=None, examples=[None])
    add_rule: RuleBody | None = Field(default=None, examples=[None])
    remove_rule: RuleBody | None = Field(default=None, examples=[None])

    def change(self) -> tuple[str, dict[str, Any]]:
        """Return which change it is, and what the caller gave of it."""
        given = {kind: one for kind in type(self).model_fields if (one := getattr(self, kind)) is not None}
        if len(given) != 1:
            raise ValueError(f"the preview has {list(given) or 'nothing'}; give one of {list(type(self).model_fields)}")
        ((kind, body),) = given.items()
        return kind, body.rule() if isinstance(body, RuleBody) else body.given()


class OverviewsAnswer(BaseModel):
    """What the page shows of each bandit in its list, by name; of those that are served."""

    overviews: dict[str, OverviewView]


class SettingAnswer(BaseModel):
    """A setting that would be another; null if it is not set."""

    name: str
    before: Any
    after: Any


class Decides(BaseModel):
    """Which share of decisions is made by whom."""

    policy: float
    holdout: float
    caller: float


class Choosable(BaseModel):
    """How many combinations there are, and which share of them may be chosen."""

    combinations: int
    allowed: float


class DecidesPair(BaseModel):
    """Who decides, before and after."""

    before: Decides
    after: Decides


class ChoosablePair(BaseModel):
    """What may be chosen, before and after."""

    before: Choosable
    after: Choosable


class PreviewedChange(BaseModel):
    """What a change would do, which was not made."""

    kind: str
    changes: bool = Field(description="Whether anything would be otherwise.")
    settings: list[SettingAnswer]
    decides: DecidesPair
    space: ChoosablePair


class ModeAnswer(BaseModel):
    """A mode, in short."""

    mode: str
    levels: int
    context: bool


class PreviewedBandit(Choosable):
    """What a bandit would be like, which was not made."""

    taken: bool = Field(description="Whether another bandit has the name.")
    modes: list[ModeAnswer]
    arms: int
    contexts: int
    decides: Decides
    rewards: int | None = Field(description="How many rewards mostly show levels that differ by about 30 %.")
    rate: float | None = Field(description="The share of decisions that earn something, of which that is said.")
    policy: str
    kind: str
