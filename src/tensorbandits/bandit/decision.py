"""A decision as an application sees it: a small value with an id, which survives JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from tensorbandits.base import html
from tensorbandits.base.checks import is_finite
from tensorbandits.base.frames import Backend, column, to_frame
from tensorbandits.space.labels import Label, key, read, written

BY = ("policy", "floor", "holdout", "caller", "fallback")


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided: tell its reward by its ``id``.

    Parameters
    ----------
    id : unlike that of any other decision.
    arm : the label that was chosen of each mode that is decided.
    context : the label that was given of each context mode.
    propensity : the probability with which this arm was drawn, given that the bandit, or that the caller's own rule,
        decides; ``None`` if that is not known.
    by : what drew it: ``"policy"``, ``"floor"``, ``"holdout"``, or ``"caller"``, the caller's own rule beside which a
        bandit learns; of a service also ``"fallback"``, an arm for when it is away.
    policy : the class of the policy.
    time : when, in seconds, as the bandit's clock says.

    >>> decision = Decision("3f2a-7", {"offer": "a"}, {"segment": "new"}, 0.25, "policy", "VectorizedUCB", 1e9)
    >>> Decision.from_json(decision.to_json()) == decision
    True
    """

    id: str
    arm: dict[str, Label]
    context: dict[str, Label]
    propensity: float | None
    by: str
    policy: str
    time: float

    def __hash__(self) -> int:
        return hash(self.id)

    def _repr_html_(self) -> str:
        known = "not known" if self.propensity is None else f"{self.propensity:.4g}"
        rows = [[mode, str(label), "given"] for mode, label in self.context.items()]
        rows += [[mode, str(label), "decided"] for mode, label in self.arm.items()]
        words = [f"by {self.by}, with propensity {known}; tell its reward by its id"]
        return html.block(f"Decision {self.id}", html.table(["mode", "label", "is"], rows, most=100), words=words)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain data that JSON can hold; dates and times become small objects."""
        result = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("arm", "context"):
            result[name] = {mode: written(label) for mode, label in result[name].items()}
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the decision that :meth:`to_dict` described."""
        names = {one.name for one in fields(cls)}
        if not isinstance(data, Mapping) or set(data) != names:
            raise ValueError(f"{data!r} is no decision; give what to_dict returned, with {sorted(names)}")
        try:
            labels = {name: {mode: read(label) for mode, label in data[name].items()} for name in ("arm", "context")}
            for mode, label in (*labels["arm"].items(), *labels["context"].items()):
                key(label, mode)
            texts, share = [data["id"], data["by"], data["policy"]], data["propensity"]
            sound = is_finite(data["time"]) and (share is None or (is_finite(share) and 0 < share <= 1))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no decision ({error}); give what to_dict returned, unchanged") from None
        if not sound or data["by"] not in BY or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{data!r} is no decision; give what to_dict returned, unchanged")
        return cls(**{**data, **labels})

    def to_json(self) -> str:
        """Return the decision as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the decision that :meth:`to_json` wrote."""
        try:
            data = json.loads(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"this is no JSON of a decision ({error}); give what to_json returned") from None
        return cls.from_dict(data)


@dataclass(frozen=True, slots=True, eq=False)
class Advice(Decision):
    """A decision of an apprentice: ``arm`` is what is played, and ``would`` is what the apprentice would have played.

    As plain data, or as JSON, it is like any other decision, without ``would``.
    """

    would: dict[str, Label] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain data, which :class:`~tensorbandits.Decision` reads."""
        result = Decision.to_dict(self)
        del result["would"]
        return result


class DecisionList(list[Decision]):
    """Decisions that were made together, in the order of their contexts: a list, which a data frame can be made of.

    >>> decision = Decision("3f2a-7", {"offer": "a"}, {"segment": "new"}, 0.25, "policy", "VectorizedUCB", 1e9)
    >>> DecisionList([decision]).to_frame().shape
    (1, 6)
    """

    def _repr_html_(self) -> str:
        modes = [*self[0].context, *self[0].arm] if self else []
        rows = [
            [one.id, *(str({**one.context, **one.arm}[mode]) for mode in modes), one.propensity, one.by]
            for one in self[: html.SHOWN + 1]
        ]
        shown = html.table(["id", *modes, "propensity", "by"], rows[: html.SHOWN])
        left = [f"the first {html.SHOWN} are"] if len(self) > html.SHOWN else []
        return html.block(f"{len(self):,} decisions", shown, words=left)

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return one row per decision: its id, a column for each mode, its propensity, by what it was made, and when.

        A mode that has the name of one of the other columns is in ``"mode id"``, for instance. ``backend`` is
        ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first of these that is installed.
        """
        modes = [*self[0].context, *self[0].arm] if self else []
        labels = [{**one.context, **one.arm} for one in self]
        rest = {name: [getattr(one, name) for one in self] for name in ("propensity", "by", "time")}
        taken = ("id", *rest)
        columns = {f"mode {mode}" if mode in taken else mode: column([one[mode] for one in labels]) for mode in modes}
        return to_frame({"id": [one.id for one in self]} | columns | rest, backend)


def number_of(decision: Any) -> Any:
    """Return the id of a decision, which may be given as itself or by its id."""
    return decision.id if isinstance(decision, Decision) else decision
