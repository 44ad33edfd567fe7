"""The bodies of the rank and reward interface, in the words of the hosted service that it takes the place of."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt
from pydantic.alias_generators import to_camel

from tensorbandits.service.http.examples import RANK_ANSWERS, RANK_BODIES
from tensorbandits.service.http.schemas import Body, Id, Number, Text

MOST_ACTIONS = 1_000  # of one request
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0)


def seconds_of(text: str) -> float:
    """Return the seconds of an ISO 8601 duration.

    >>> seconds_of("PT10M"), seconds_of("P1DT0.5S")
    (600.0, 86400.5)
    """
    found = _DURATION.fullmatch(text)
    seconds = (
        0.0 if found is None else sum(float(n or 0) * unit for n, unit in zip(found.groups(), _SECONDS, strict=True))
    )
    if not 0.0 < seconds < 1e9:
        raise ValueError(
            f"{text[:60]!r} is no time to wait; write days, hours, minutes and seconds as in PT10M or P1DT12H"
        )
    return seconds


def duration_of(seconds: float) -> str:
    """Return an ISO 8601 duration.

    >>> duration_of(600.0), duration_of(93784.5), duration_of(172800.0)
    ('PT10M', 'P1DT2H3M4.5S', 'P2D')
    """
    days, rest = divmod(seconds, 86_400.0)
    hours, rest = divmod(rest, 3_600.0)
    minutes, rest = divmod(rest, 60.0)
    time = "".join(
        f"{value:.10g}{unit}" for value, unit in ((hours, "H"), (minutes, "M"), (round(rest, 6), "S")) if value
    )
    return "P" + (f"{days:.0f}D" if days else "") + (f"T{time}" if time or not days else "")


def _checked_duration(text: str) -> str:
    seconds_of(text)
    return text


def _checked_reward(value: float) -> float:
    if not -1 <= value <= 1:
        raise ValueError(
            f"value is {value:g}; rewards are from -1 to 1 here: scale it, or send it to the route tell, which takes "
            "any reward of the bandit's kind"
        )
    return value


class CamelBody(Body):
    """A request whose fields are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


class RankAction(CamelBody):
    """Something that can be chosen."""

    id: Text = Field(min_length=1, examples=["video"], description="The label of a level of the mode that is decided.")
    features: list[Any] | None = Field(default=None, description="Taken, and not used: levels are known by their id.")


class RankBody(CamelBody):
    """A request to choose one of some actions."""

    model_config = ConfigDict(json_schema_extra={"examples": list(RANK_BODIES["rank"].values())})
    actions: Annotated[list[RankAction], Field(min_length=1, max_length=MOST_ACTIONS, fail_fast=True)] = Field(
        description="What may be chosen. While the bandit is an apprentice, the first that is not excluded is played."
    )
    context_features: list[dict[str, Any]] | None = Field(
        default=None, description="Features by name, nested or not: those named like context modes give their labels."
    )
    excluded_actions: Annotated[list[Text], Field(max_length=MOST_ACTIONS)] | None = Field(
        default=None, description="Ids of actions that may not be chosen this time."
    )
    event_id: Id | None = Field(default=None, description="An id of yours; the same request again is answered alike.")
    defer_activation: StrictBool = Field(default=False, description="Whether it is shown only when it is activated.")


class RankRewardBody(CamelBody):
    """A reward."""

    model_config = ConfigDict(json_schema_extra={"examples": list(RANK_BODIES["rank_reward"].values())})
    value: Annotated[Number, AfterValidator(_checked_reward)] = Field(
        description="From -1 to 1, and of the bandit's kind: 0 or 1 where it learns clicks."
    )


class RankConfiguration(CamelBody):
    """What of the interface's configuration is to change; what is not given stays."""

    model_config = ConfigDict(json_schema_extra={"examples": list(RANK_BODIES["change_rank_configuration"].values())})
    reward_wait_time: Annotated[Text, AfterValidator(_checked_duration)] | None = Field(
        default=None, examples=["PT10M"], description="How long an event waits for its reward: the bandit's window."
    )
    default_reward: Number | None = Field(default=None, description="The reward of an event that got none in time.")
    reward_aggregation: Literal["earliest", "sum"] | None = Field(
        default=None, description="Which rewards of one event count. Fixed when the bandit is made, by its `adds`."
    )
    exploration_percentage: float | None = Field(
        default=None, ge=0, le=1, description="The share of decisions spread evenly over the actions: a floor."
    )
    learning_mode: Literal["Online", "Apprentice"] | None = Field(
        default=None, description="Whether the bandit decides, or learns beside the first action of each request."
    )
    new_actions: StrictInt | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="How many actions the bandit may come to have through requests that name new ones; with null, "
        "such requests are refused.",
    )
    # Taken so that configurations can be sent as they are, and named in the answer as ignored.
    model_export_frequency: Any = Field(default=None, description="Not used: what is learned is used in seconds.")
    log_retention_days: Any = Field(default=None, description="Not used: see folding.")
    log_mirror_enabled: Any = Field(default=None, description="Not used: see exporting.")
    log_mirror_sas_uri: Any = Field(default=None, description="Not used: see exporting.")
    last_configuration_edit_date: Any = Field(default=None, description="Not used.")
    is_auto_optimization_enabled: Any = Field(default=None, description="Not used: settings are learned.")
    auto_optimization_frequency: Any = Field(default=None, description="Not used: settings are learned.")
    auto_optimization_start_date: Any = Field(default=None, description="Not used: settings are learned.")


IGNORED = {
    name for name, field in RankConfiguration.model_fields.items() if (field.description or "").startswith("Not used")
}


class CamelAnswer(BaseModel):
    """An answer whose fields are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


class RankedAction(CamelAnswer):
    """An action of the request, and how probable it was that it would be chosen."""

    id: str
    probability: float | None = Field(description="Exact; null where it is not known any more.")


class IgnoredFeatures(CamelAnswer):
    """What of a request was not looked at."""

    context_features: list[str] = Field(description="Names of context features that are no context mode.")
    action_features: int = Field(description="How many features actions had.")


class RankAnswer(CamelAnswer):
    """What was chosen."""

    model_config = ConfigDict(json_schema_extra={"examples": [RANK_ANSWERS["rank"]]})
    event_id: str = Field(description="The id of the decision: send its reward under it.")
    reward_action_id: str = Field(description="The action to show.")
    ranking: list[RankedAction] = Field(description="All actions: the chosen one, then the others, likeliest first.")
    ignored: IgnoredFeatures


class RankConfigurationAnswer(CamelAnswer):
    """The configuration of the interface, read from the settings of the bandit."""

    model_config = ConfigDict(json_schema_extra={"examples": [RANK_ANSWERS["rank_configuration"]]})
    reward_wait_time: str | None
    default_reward: float | None
    reward_aggregation: Literal["earliest", "sum"]
    exploration_percentage: float | None = Field(description="null if the bandit's floors are of single arms.")
    learning_mode: Literal["Online", "Apprentice"]
    new_actions: int | None
    ignored: list[str] = Field(description="Fields of the request that mean nothing here.")
