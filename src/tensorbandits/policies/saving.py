"""Saving and loading: how a policy becomes a state or a file, and a state or a file the same policy again.

A state says of which class it is, by qualified name, with which version of that class's own part; it is refused unless
its checksum fits. Nothing of a file is executed: the class must be known already.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from tensorbandits.base import codec
from tensorbandits.ledger import Ledger
from tensorbandits.tensor.allowed import Allowed

if TYPE_CHECKING:
    from tensorbandits.policies.base import Policy

Kind = TypeVar("Kind", bound="Policy")

_FILE_VERSION = 1
_PARTS = ("arguments", "rng", "ledger", "forbidden", "notes", "state", "checksum")
_DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def kind_name(kind: type[Policy]) -> str:
    """Return the name under which states know a class: qualified by its module, or by the package alone.

    >>> from tensorbandits import VectorizedUCB
    >>> kind_name(VectorizedUCB)
    'tensorbandits.VectorizedUCB'
    """
    package = kind.__module__.partition(".")[0]
    return f"{package if package == __name__.partition('.')[0] else kind.__module__}.{kind.__qualname__}"


def state_of(policy: Policy) -> dict[str, Any]:
    """Return the state of a policy that stands still."""
    state = {
        "policy": kind_name(type(policy)),
        "version": type(policy).state_version,
        "arguments": arguments_of(policy),
        "rng": copy.deepcopy(policy._rng.bit_generator.state),
        "ledger": policy._ledger.state(),
        "forbidden": [[[mode, level] for mode, level in rule.items()] for rule in policy.forbidden],
        "notes": policy._notes.state(),
        "state": policy._state(),
        **({"pseudo": policy._pseudo.state()} if len(policy._pseudo) else {}),
    }
    return state | {"checksum": _checksum(state)}


def arguments_of(policy: Policy) -> dict[str, Any]:
    """Return the arguments of a policy's constructor, which it keeps under their names; the seed aside."""
    kind = type(policy)
    names = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "seed")]
    if missing := [name for name in names if not hasattr(policy, name)]:
        raise TypeError(
            f"{kind.__name__} does not keep its arguments {missing} under their names, so that it could not be made "
            "again; set self.<name> = <name> for each, and name each argument by itself"
        )
    return {name: copy.deepcopy(getattr(policy, name)) for name in names}


def policy_of(wanted: type[Kind], kinds: Mapping[str, type[Policy]], state: Any) -> Kind:
    """Return the policy that a state describes, of the wanted class or one derived from it."""
    kind = _check(wanted, kinds, state)
    try:
        if state["version"] != kind.state_version:
            state = kind._upgraded(state)
        policy: Kind = kind(**copy.deepcopy(dict(state["arguments"])))
        ours, policy._ledger = type(policy._ledger), Ledger.from_state(state["ledger"])
        if type(policy._ledger) is not ours:
            raise ValueError(f"its ledger is a {type(policy._ledger).__name__}, not a {ours.__name__}")
        if policy._ledger.shape != policy.shape:
            raise ValueError(f"its ledger has shape {policy._ledger.shape}, the policy {policy.shape}")
        if "pseudo" in state:
            policy._pseudo = Ledger.from_state(state["pseudo"])
            if policy._pseudo.shape != policy.shape:
                raise ValueError(f"its pseudo-rewards have shape {policy._pseudo.shape}, the policy {policy.shape}")
        policy._rng.bit_generator.state = state["rng"]
        rules = [dict(rule) for rule in state["forbidden"]]
        policy._standing = Allowed.of(Allowed(forbidden=rules), policy.shape) if rules else None
        policy._notes.restore(state["notes"], policy.shape)
        policy._restore(state["state"])
    except _DAMAGE as error:
        what = f"no {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"the state of a {kind.__name__} is damaged ({what}); give what state_dict returned, whole"
        ) from error
    return policy


def _check(wanted: type[Kind], kinds: Mapping[str, type[Policy]], state: Any) -> Any:
    """Return the class of a state, once that is known to be whole and of a version that can be read."""
    if not isinstance(state, Mapping):
        raise TypeError(f"the state is {state!r}; give the dict that state_dict returned")
    if not isinstance(state.get("policy"), str):
        raise ValueError("the state names no policy; give the dict that state_dict returned, whole")
    kind = kinds.get(state["policy"])
    if kind is None:
        raise ValueError(
            f"the state is of a {state['policy']!r}, which is not registered here; import the module that defines this "
            f"class first. Known are {sorted(kinds)}"
        )
    if not issubclass(kind, wanted):
        raise ValueError(f"the state is of a {state['policy']!r}, not of {wanted.__name__}; use that class, or Policy")
    if missing := [part for part in _PARTS if part not in state]:
        raise ValueError(f"the state lacks {missing}; give what state_dict returned, whole")
    version = state.get("version")
    if version != kind.state_version and version not in kind.older_versions:
        newer = isinstance(version, int) and version > kind.state_version
        remedy = "it was written by a newer release: upgrade" if newer else "it cannot be read"
        raise ValueError(
            f"the state of the {kind.__name__} has version {version!r}; this release reads version "
            f"{kind.state_version}: {remedy}"
        )
    try:
        fits = state["checksum"] == _checksum({name: part for name, part in state.items() if name != "checksum"})
    except _DAMAGE:  # something that no state holds
        fits = False
    if not fits:
        raise ValueError(
            f"the state of the {kind.__name__} is damaged: its checksum does not fit; give what state_dict returned, "
            "unchanged"
        )
    return kind


def write(path: str | PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state to a file, the arguments that are code aside."""
    codec.save(path, "policy", _FILE_VERSION, detached(state))


def detached(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without the arguments that are code, of which it keeps the names."""
    arguments, code = _split(state["arguments"])
    return {**state, "arguments": arguments, "code": sorted(code)}


def read(path: str | PathLike[str], code: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state in a file, with the arguments that are code, which must be just those that were left out."""
    saved = codec.load(path)
    if saved.kind != "policy" or saved.version > _FILE_VERSION:
        raise ValueError(
            f"{path} holds a {saved.kind!r} of version {saved.version}, not a policy of version {_FILE_VERSION}; give "
            "a file that a policy's save wrote, with this or an older release"
        )
    return attached(dict(saved.state), code, str(path))


def attached(state: dict[str, Any], code: Mapping[str, Any], what: str = "the policy") -> dict[str, Any]:
    """Return a state with the arguments that are code, which must be just those that :func:`detached` left out."""
    wanted, arguments = state.pop("code", None), state.get("arguments")
    if not isinstance(wanted, list) or not isinstance(arguments, dict):
        raise ValueError(f"{what} holds no whole state of a policy; give a file that a policy's save wrote")
    if sorted(code) != wanted:
        given = "".join(f", {name}=.." for name in wanted)
        raise TypeError(
            f"{what} was saved without {wanted or 'any code'}, but {sorted(code)} was given; call load(path{given})"
        )
    return state | {"arguments": arguments | dict(code)}


def code_of(policy: Policy) -> dict[str, Any]:
    """Return the arguments of a policy that are code, which its state does not hold."""
    return _split(arguments_of(policy))[1]


def _split(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that are plain data, and those that are code."""
    code = {name: value for name, value in arguments.items() if callable(value)}
    return {name: value for name, value in arguments.items() if name not in code}, code


def _checksum(state: Mapping[str, Any]) -> str:
    """Return the checksum of a state, arguments that are code aside."""
    return codec.checksum({**state, "arguments": _split(state["arguments"])[0]})
