"""A file of settings, in TOML: the names of the settings, and their values, as environment variables would have them.

store = "postgresql://me@db/bandits"
port = 9000
body_limit = "16 MiB"
origins = ["https://shop.example"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensorbandits.base.checks import nearest

_LONGEST = 2**20  # bytes


def read_config(path: str | Path, known: Iterable[str]) -> dict[str, Any]:
    """Return the settings that a file has, of which these names are known; lists become text with commas."""
    place, names = Path(path), list(known)
    try:
        content = place.read_bytes()
        if len(content) > _LONGEST:
            raise ValueError(f"the configuration file {place} has more than {_LONGEST:,} bytes; give one of settings")
        found = tomllib.loads(content.decode())
    except OSError as error:
        raise ValueError(
            f"the configuration file {place} cannot be read ({error.strerror}); give another with --config"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"the configuration file {place} is not in UTF-8; write it so") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the configuration file {place} is no TOML: {error}") from None
    for name, value in found.items():
        if name not in names:
            hint = nearest(name, names) or f"known are {', '.join(names)}"
            raise ValueError(f"{name} in {place} is no setting; {hint}")
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            found[name] = ",".join(value)
        elif not isinstance(value, str | int | float | bool):
            raise ValueError(f"{name} in {place} is {value!r}; give text, a number, true or false, or a list of texts")
    return found
