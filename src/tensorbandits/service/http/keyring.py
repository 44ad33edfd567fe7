"""API keys: made once, kept as argon2 hashes, checked off the event loop, remembered for a while, revoked in seconds.

A key is ``tb_<id>_<secret>``. The id is no secret: logs and lists show it. The secret has 256 random bits, so that it
cannot be guessed; what has to be kept from strangers is our CPU, as one argon2 hash takes tens of milliseconds. So a
key of an unknown id costs no hash, a wrong one is remembered as wrong, one thread hashes, and an address that sent too
many wrong keys has to wait.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import string
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import argon2

from tensorbandits.service import logs
from tensorbandits.service.http.access import ADMIN, ROLES, Grant
from tensorbandits.service.http.errors import Problem
from tensorbandits.service.http.limits import Buckets, network_of
from tensorbandits.service.http.validation import short
from tensorbandits.store.errors import StoreError
from tensorbandits.store.events import KeyRow

if TYPE_CHECKING:
    from tensorbandits.service.metrics import Metrics

FORM = re.compile(rb"tb_([a-z0-9]{10})_[A-Za-z0-9]{43}")  # of a key
_LETTERS = string.ascii_letters + string.digits
HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)  # OWASP's least; the secret is random
_SECONDS = 600.0  # that a verified key is remembered
MOST = 10_000  # verified keys that are remembered, and as many wrong ones
WAITING = 100  # keys that may wait for the thread that hashes
_WRONG_RATE, _WRONG_BURST = 0.5, 20.0  # wrong keys of one address: a second, and at once
_LONGEST_NAME = 100

_HOW = "send the header Authorization: Bearer tb_..; whoever runs the service makes keys: tensorbandits keys add NAME"


class KeyTable(Protocol):
    """Where keys are kept, as hashes: a store."""

    def keys(self) -> list[KeyRow]:
        """Return all keys, revoked ones too."""
        ...

    def add_key(self, row: KeyRow) -> None:
        """Keep a key."""
        ...

    def revoke_key(self, key: str, time: float) -> bool:
        """Revoke a key; say whether it was there and not revoked."""
        ...


class VerifiedKey(NamedTuple):
    """A key that was verified: its id, the hash that it fits, and until when that is believed."""

    id: str
    hash: str
    until: float


def make_key(name: Any, role: Any, bandits: Sequence[str] | None = None) -> tuple[KeyRow, str]:
    """Return the row of a new key, which holds a hash only, and the key itself, to be shown once.

    >>> row, key = make_key("the shop", "decide", ["shop"])
    >>> key.startswith(f"tb_{row.id}_"), key in str(row)
    (True, False)
    """
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"name is {short(name)}; give 1 to {_LONGEST_NAME} printable characters")
    if role not in ROLES:
        raise ValueError(f"role is {short(role)}; give one of {', '.join(ROLES)}")
    if bandits is not None:
        if not bandits:
            raise ValueError("bandits is empty, so that the key could do nothing; name one or more, or leave it out")
        for bandit in bandits:
            if not isinstance(bandit, str) or not bandit.strip() or not bandit.isprintable():
                raise ValueError(f"bandits has {short(bandit)}; give names of bandits")
    id = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(10))
    key = f"tb_{id}_{''.join(secrets.choice(_LETTERS) for _ in range(43))}"
    limits = None if bandits is None else sorted(set(bandits))
    return KeyRow(id, name.strip(), HASHER.hash(key), role, limits, time.time(), None), key


def bearer(header: bytes) -> bytes | None:
    """Return the key of an Authorization header, if it has one.

    >>> bearer(b"Bearer abc"), bearer(b"Basic abc")
    (b'abc', None)
    """
    return header[7:].strip() if header[:7].lower() == b"bearer " else None


class Keys:
    """The keys of a store as one process knows them.

    Parameters
    ----------
    store : where keys are kept.
    seconds : how often they are read again, in a thread of its own, once :meth:`start` was called.
    exposed : whether other machines reach the service; then a key is needed even if there are none.

    As long as there has never been a key, and the service is not exposed, everybody may do everything.
    """

    def __init__(
        self,
        store: KeyTable,
        *,
        seconds: float = 2.0,
        exposed: bool = False,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._store, self._seconds, self._metrics, self._clock = store, seconds, metrics, clock
        self._pepper = os.urandom(32)  # so that nobody can tell the place of a key in the tables below
        self.entries: dict[str, tuple[str, Grant]] | None = None  # by id: hash and grant of those not revoked
        self._asked = exposed  # whether a key is needed; once it is, it stays so while the process lives
        self._read_at = -1e9
        self.good: dict[bytes, VerifiedKey] = {}
        self.wrong: dict[bytes, float] = {}  # until when a wrong key is believed to be one
        self.pending: dict[bytes, asyncio.Future[Grant | None]] = {}
        self._failures = Buckets(_WRONG_RATE, _WRONG_BURST, clock=clock)
        self._hashing = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._reading = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._log = logs.get("keys")

    # -- the table of keys, read off the hot path

    def start(self) -> None:
        """Read the keys, and go on reading them in the background."""
        self.read()
        self._thread = threading.Thread(target=self._follow, name="keys-read", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read them no more; when it returns, the store may be closed."""
        self._stopped.set()
        self._hashing.shutdown(cancel_futures=True)
        if self._thread is not None:
            self._thread.join()

    def read(self, not_older: float = 0.0) -> None:
        """Read the keys from the store now, unless that was done so many seconds ago."""
        with self._reading:
            if self._clock() - self._read_at < not_older:
                return
            rows = self._store.keys()
            self._asked = self._asked or bool(rows)
            self.entries = {  # in one assignment, as others look at it
                row.id: (row.hash, Grant(row.role, _names(row.bandits), row.id, row.name))
                for row in rows
                if row.revoked is None
            }
            self._read_at = self._clock()

    def _follow(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self.read()
            except StoreError as error:  # the last known keys stay
                self._log.warning("keys could not be read", error=str(error))
            except Exception as error:
                self._log.error("keys could not be read", exc_info=error)
            if self._metrics is not None:
                self._metrics.keys_read(self._clock() - self._read_at)

    @property
    def open(self) -> bool:
        """Whether nobody is asked for a key."""
        if self.entries is None and not self._asked:
            raise Problem("unavailable", "the service is starting; try again in a second", retry=1)
        return not self._asked

    # -- keys of callers

    def known(self, token: bytes) -> Grant | None:
        """Return what a key grants if it was verified lately and is not revoked; takes microseconds."""
        seen = self.good.get(blake2b(token, key=self._pepper, digest_size=16).digest())
        if seen is None or self.entries is None or self._clock() >= seen.until:
            return None
        hash, grant = self.entries.get(seen.id, ("", None))
        return grant if hash == seen.hash else None

    async def grant(self, token: bytes, address: str) -> Grant:
        """Return what a key grants, or refuse it; verified in a thread, once for all who wait for it."""
        if (known := self.known(token)) is not None:
            return known
        digest, who = blake2b(token, key=self._pepper, digest_size=16).digest(), network_of(address)
        if FORM.fullmatch(token) is None:
            raise self._refusal(who, "the API key is not of the form tb_ID_SECRET; look whether it is whole")
        if self._clock() < self.wrong.get(digest, 0.0):
            raise self._refusal(who, "the API key is not known, or was revoked")
        if digest not in self.good and (wait := self._failures.wait(who)) > 0:  # one that was good is no guess
            raise Problem("too_many", "too many wrong API keys came from this address; wait", retry=wait)
        found = await asyncio.shield(self._verified(digest, token))
        if found is None:
            raise self._refusal(who, "the API key is not known, or was revoked")
        return found

    def _refusal(self, who: str, words: str) -> Problem:
        """Count a wrong key of somebody, and say that it is wrong, or that there were too many."""
        if (wait := self._failures.take(who)) > 0:
            return Problem("too_many", "too many wrong API keys came from this address; wait", retry=wait)
        return Problem("unauthorized", f"{words}; {_HOW}")

    def _verified(self, digest: bytes, token: bytes) -> asyncio.Future[Grant | None]:
        """The answer to come for a key; one for all requests that carry it."""
        future = self.pending.get(digest)
        if future is None:
            if len(self.pending) >= WAITING:
                raise Problem("too_many", "too many new API keys at once; try again", retry=1)
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._hashing, self.verify, digest, token)
            future.add_done_callback(lambda done: self.pending.pop(digest, None))
            self.pending[digest] = future
        return future

    def verify(self, digest: bytes, token: bytes) -> Grant | None:
        """Look the key up, and hash it if its id is known; in the thread."""
        id = token[3:13].decode()
        if self.entries is None or id not in self.entries:
            self.read(not_older=0.2)  # it may have been made a moment ago by another process
        assert self.entries is not None
        hash, grant = self.entries.get(id, ("", None))
        try:
            valid = grant is not None and HASHER.verify(hash, token)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            valid = False
        if not valid:
            _keep(self.wrong, digest, self._clock() + (_SECONDS if grant is not None else 1.0))
            self.good.pop(digest, None)
            return None
        _keep(self.good, digest, VerifiedKey(id, hash, self._clock() + _SECONDS))
        return grant

    # -- handling keys

    def add(self, name: Any, role: Any, bandits: Sequence[str] | None = None) -> tuple[KeyRow, str]:
        """Make a key, keep its hash, and return its row and the key itself; takes a hash's time, so not in the loop."""
        row, key = make_key(name, role, bandits)
        self.read()
        if not self._asked and (role != ADMIN or bandits is not None):
            raise ValueError(
                f"this would be the first key, and its role is {role}: from then on everybody needs a key, and nobody "
                "could make bandits or keys here; make one of role admin first, not limited to some bandits"
            )
        self._store.add_key(row)
        self.read()
        return row, key

    def revoke(self, id: str) -> None:
        """Revoke a key; one that is revoked already stays so."""
        rows = self._store.keys()
        if not self._store.revoke_key(id, time.time()) and all(row.id != id for row in rows):
            raise Problem("not_found", f"there is no key {short(id)}; GET /v1/keys lists them")
        self.read()


def refusal_without_key() -> Problem:
    """Return what a caller is told who sends no key."""
    return Problem("unauthorized", f"this needs an API key; {_HOW}")


def _names(bandits: Sequence[str] | None) -> frozenset[str] | None:
    return None if bandits is None else frozenset(bandits)


def _keep(table: dict[bytes, Any], digest: bytes, value: Any) -> None:
    """Put a value into a table that forgets the oldest when it is full."""
    table.pop(digest, None)
    while len(table) >= MOST:
        table.pop(next(iter(table)), None)
    table[digest] = value
