"""Settings of the service: from arguments, then environment variables, then a file, then the defaults."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Self

from tensorbandits.bandit.publishing import place_of
from tensorbandits.decider.tokens import TokenKeys
from tensorbandits.service.config_file import read_config

PREFIX = "TENSORBANDITS_"
CONFIG = f"{PREFIX}CONFIG"  # the variable that names the file of settings
MEBIBYTE = 2**20
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "console")
_SECRET = ("store", "token_keys", "publish")  # settings that no message shows

_UNITS = {"": 1, "b": 1, "k": 2**10, "kib": 2**10, "m": 2**20, "mib": 2**20, "g": 2**30, "gib": 2**30}
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _setting(default: Any, help: str, read: Callable[[Any], Any], **more: Any) -> Any:
    return field(default=default, metadata={"help": help, "read": read}, **more)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("give some text")
    return value.strip()


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ValueError(f"give a whole number from {least} to {most}")
        return number

    return read


def _number(least: float, most: float = math.inf, above: bool = False) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not (least < number if above else least <= number) or not number <= most or math.isinf(number):
            start = f"above {least:g}" if above else f"of at least {least:g}"
            raise ValueError(f"give a number {start}{'' if math.isinf(most) else f' and at most {most:g}'}")
        return number

    return read


def _bytes(value: Any) -> int:
    """Read a number of bytes, which may have a unit: 8388608, 512k, 8 MiB."""
    match = re.fullmatch(r"\s*(\d{1,15})\s*([a-z]*)\s*", str(value).lower())
    size = int(match[1]) * _UNITS.get(match[2], 0) if match else 0
    if isinstance(value, bool) or not 1024 <= size <= 2**40:
        raise ValueError("give a number of bytes from 1024 to 1 TiB, with a unit if you like: 512k, 8 MiB, 2 GiB")
    return size


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if str(value).lower() not in allowed:
            raise ValueError(f"give one of {', '.join(allowed)}")
        return str(value).lower()

    return read


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _TRUTH:
        raise ValueError("give yes or no")
    return _TRUTH[str(value).lower()]


def _proxies(value: Any) -> str:
    """Read addresses and networks that are separated by commas."""
    words = "give addresses or networks with commas between them: 10.0.0.7,192.168.0.0/16"
    if not isinstance(value, str):
        raise ValueError(words)
    parts = [part.strip() for part in value.split(",") if part.strip()]
    for part in parts:
        try:
            ipaddress.ip_network(part, strict=False)
        except ValueError:
            raise ValueError(words) from None
    return ",".join(parts)


def _address(value: Any) -> str:
    """Read an address in which ``{name}`` stands for a bandit's name; it may be empty."""
    if not isinstance(value, str) or (value.strip() and value.count("{name}") != 1):
        raise ValueError("give an address with {name} where the bandit's name belongs: s3://bucket/published/{name}")
    text = value.strip()
    if text:
        place_of(text.replace("{name}", "name"))
    return text


def _token_keys(value: Any) -> str:
    """Read the keys of tokens, by name; they may be none."""
    if not isinstance(value, str):
        raise ValueError("give text: name=secret, with commas between several")
    if value.strip():
        TokenKeys.of(value)
    return value.strip()


def _origins(value: Any) -> str:
    """Read origins of web pages that are separated by commas."""
    words = "give origins with commas between them, as browsers send them: https://shop.example,http://localhost:5173"
    if not isinstance(value, str):
        raise ValueError(words)
    parts = [part.strip().lower().rstrip("/") for part in value.split(",") if part.strip()]
    if not all(re.fullmatch(r"https?://[a-z0-9.\[\]:-]+", part) for part in parts):
        raise ValueError(words)
    return ",".join(parts)


@dataclass(frozen=True)
class Settings:
    """What the service is started with. :meth:`read` makes them, and says where a wrong one came from.

    >>> Settings.read({"TENSORBANDITS_PORT": "9000"}, host="::1").address
    'http://[::1]:9000'
    >>> Settings.read({"TENSORBANDITS_PORT": "http"})
    Traceback (most recent call last):
    ValueError: the environment variable TENSORBANDITS_PORT is 'http'; give a whole number from 0 to 65535
    """

    store: str = _setting("sqlite:///tensorbandits.db", "Where events are kept: a URL, or a file.", _text, repr=False)
    host: str = _setting("127.0.0.1", "The address to listen on.", _text)
    port: int = _setting(8000, "The port to listen on; 0 takes a free one.", _whole(0, 65535))
    workers: int = _setting(1, "Processes that serve.", _whole(1, 256))
    body_limit: int = _setting(8 * MEBIBYTE, "The largest body of a request, such as 8 MiB.", _bytes)
    import_limit: int = _setting(1024 * MEBIBYTE, "The largest log that can be imported, such as 1 GiB.", _bytes)
    import_rows: int = _setting(
        5_000_000, "The most rows of a log that is imported, however small its file is.", _whole(1, 10**9)
    )
    idle_seconds: float = _setting(
        75.0,
        "Seconds that a caller may keep a connection waiting: for a request, for more of one, or to take its answer.",
        _number(0.1, 86_400),
    )
    connections: int = _setting(
        10_000, "Connections of a process; beyond, those that are idle longest are closed.", _whole(1, 1_000_000)
    )
    rate: float = _setting(5_000.0, "Requests a second of one key in each process; 0 for no limit.", _number(0))
    burst: float = _setting(10_000.0, "Requests that a key may send at once, above its rate.", _number(1))
    learning_share: float = _setting(
        0.2, "The share of a core that learning may take in each process.", _number(0, 1, above=True)
    )
    snapshot_interval: float = _setting(60.0, "Seconds between snapshots; 0 for none.", _number(0))
    log_level: str = _setting("info", "debug, info (with a line per request), warning or error.", _one_of(*LEVELS))
    log_format: str = _setting("json", "json, or console for people.", _one_of(*FORMATS))
    store_away: float = _setting(
        10.0, "Seconds without an answer of the store after which the process says that it is not ready.", _number(1)
    )
    drain_seconds: float = _setting(
        3.0,
        "Seconds that a process which was told to stop goes on serving, while it says that it is not ready.",
        _number(0, 3_600),
    )
    demo: bool = _setting(False, "Start with a campaign whose simulated users click.", _truth)
    proxy: str = _setting(
        "", "Addresses of proxies whose X-Forwarded headers are believed, with commas; none by default.", _proxies
    )
    origins: str = _setting(
        "", "Origins of web pages that may use the API from a browser (CORS), with commas; none by default.", _origins
    )
    token_keys: str = _setting(
        "",
        "Secrets that sign the ids of decisions that deciders make: 2026-11=SECRET, the same for servers and deciders; "
        "the first signs, all are good for checking.",
        _token_keys,
        repr=False,
    )
    token_days: float = _setting(
        30.0, "Days after a decision of a decider in which its reward is taken.", _number(0, 3_650, above=True)
    )
    publish: str = _setting(
        "",
        "Where snapshots are published for deciders: a folder, an address of fsspec, or Redis, with {name} where the "
        "bandit's name belongs; nowhere by default. Deciders can ask for them over HTTP in any case.",
        _address,
        repr=False,
    )
    publish_every: float = _setting(5.0, "Seconds between two snapshots of a bandit, at least.", _number(0.1, 86_400))
    key_seconds: float = _setting(
        2.0, "Seconds until a process notices that a key was revoked elsewhere.", _number(0.1, 60)
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            try:
                read = each.metadata["read"](value)
            except ValueError as error:
                raise ValueError(f"{each.name} is {_shown(each.name, value)}; {error}") from None
            object.__setattr__(self, each.name, read)
        if self.import_limit < self.body_limit:
            raise ValueError(
                f"import_limit is {self.import_limit}, below body_limit, which is {self.body_limit}; give at least that"
            )

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None, config: str | None = None, **given: Any) -> Self:
        """Return settings of arguments (``None`` was not given), ``TENSORBANDITS_*`` variables, a file, and defaults.

        The file is ``config``, or what ``TENSORBANDITS_CONFIG`` names.
        """
        return cls.traced(environment, config, **given)[0]

    @classmethod
    def traced(
        cls, environment: Mapping[str, str] | None = None, config: str | None = None, **given: Any
    ) -> tuple[Self, dict[str, str]]:
        """Return settings, as :meth:`read` does, and where each came from that is not the default."""
        environment = os.environ if environment is None else environment
        config = config or environment.get(CONFIG, "").strip()
        filed = read_config(config, [each.name for each in fields(cls)]) if config else {}
        values: dict[str, Any] = {}
        places: dict[str, str] = {}
        for each in fields(cls):
            variable = PREFIX + each.name.upper()
            if given.get(each.name) is not None:
                values[each.name], places[each.name] = given[each.name], f"--{each.name.replace('_', '-')}"
            elif environment.get(variable, "").strip():
                values[each.name] = environment[variable]
                places[each.name] = f"the environment variable {variable}"
            elif each.name in filed:
                values[each.name], places[each.name] = filed[each.name], f"{each.name} in {config}"
        if unknown := given.keys() - {each.name for each in fields(cls)}:
            raise TypeError(f"there is no setting {sorted(unknown)[0]!r}")
        try:
            return cls(**values), places
        except ValueError as error:
            name, rest = str(error).split(" ", 1)
            raise ValueError(f"{places.get(name, name)} {rest}") from None

    def environment(self) -> dict[str, str]:
        """Return the variables by which another process reads the same settings.

        >>> Settings.read(Settings(port=1, demo=True).environment()) == Settings(port=1, demo=True)
        True
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        texts = {
            name: ("yes" if value else "no") if isinstance(value, bool) else str(value)
            for name, value in values.items()
        }
        return {PREFIX + name.upper(): text for name, text in texts.items()}

    @property
    def address(self) -> str:
        """Where a browser finds the service."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def _shown(name: str, value: Any) -> str:
    """The value in a message; a URL may hold a password."""
    return "hidden" if name in _SECRET and isinstance(value, str) and value.strip() else repr(value)


@lru_cache(1024)  # as it is asked of every request
def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach what listens on this address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", "example.org")]
    [True, True, True, False, False, False]
    """
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_exposed(host: str, has_keys: bool) -> None:
    """Refuse to listen where other machines reach the service while it asks nobody for a key.

    >>> check_exposed("127.0.0.1", has_keys=False)
    >>> check_exposed("0.0.0.0", has_keys=True)
    """
    if not has_keys and not is_loopback(host):
        raise ValueError(
            f"--host is {host!r}, which other machines can reach, and there are no API keys, so that everybody could "
            "do everything; make a key first: tensorbandits keys add NAME --role admin --store URL (the same store), "
            "or listen on 127.0.0.1"
        )
