"""A look at whether a service could start with some settings, without starting it or changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from tensorbandits.bandit.publishing import without_password
from tensorbandits.decider.tokens import TokenKeys
from tensorbandits.service.run import check_free
from tensorbandits.service.settings import Settings, check_exposed
from tensorbandits.store import Store
from tensorbandits.store.address import parse, shown

_SHOWN: dict[str, Callable[[Any], str]] = {  # of settings that may hold secrets
    "store": lambda value: shown(parse(value)),
    "token_keys": lambda value: repr(TokenKeys.of(value)),
    "publish": without_password,
}
_STORES = {
    "ready": "is there, and has {keys} keys",
    "new": "is empty; its tables will be made",
    "older": "has tables of an earlier release, which will be upgraded",
}


def checked(settings: Settings, places: dict[str, str]) -> Iterator[str]:
    """Yield a line for each setting that is not the default, and for what was looked at; raise for what is wrong.

    ``places`` says of each setting where it came from.
    """
    for each in fields(settings):
        value = getattr(settings, each.name)
        if each.name in places:
            yield f"{each.name} = {_SHOWN.get(each.name, repr)(value)}, from {places[each.name]}"
    state, keys = Store.look(settings.store)
    yield f"the store {_STORES[state].format(keys=keys)}"
    check_exposed(settings.host, bool(keys))
    try:
        check_free(settings.host, settings.port)
    except ValueError as error:
        yield f"warning: {error}"
