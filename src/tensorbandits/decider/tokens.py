"""Tokens: ids of decisions that say what was decided, signed, so that a reward needs no look-up.

The bytes, before base64::

    format 1 | key 4 | uid 8 | flags 1 | version | draw | cell length, levels | propensity 8 | chances 8 8 |
    milliseconds 6 | random 8 | signature 16

``version``, ``draw`` and levels are numbers of one byte for each 7 bits. ``flags`` has who decided, and which of draw,
propensity and chances there are. The signature is HMAC-SHA256 of all that stands before it, cut to 16 bytes. What all
tokens of one arm share stands first, so that it is written once.
"""

from __future__ import annotations

import binascii
import hmac
import math
import os
import struct
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple, Self

from tensorbandits.bandit.commands import Drawn
from tensorbandits.bandit.decision import BY
from tensorbandits.bandit.published import UID_BYTES, check_uid
from tensorbandits.bandit.spans import Span
from tensorbandits.base.checks import Cell
from tensorbandits.base.errors import TensorbanditsError

KEYS_VARIABLE = "TENSORBANDITS_TOKEN_KEYS"
_FORMAT = 1
_LEAST_KEY = 16  # bytes
_SIGNATURE, _RANDOM, _TIME, _KEY = 16, 8, 6, 4
_BLOCK = 64  # bytes that SHA-256 takes in at once
_TAIL = _TIME + _RANDOM + _SIGNATURE
_DRAW, _PROPENSITY, _CHANCES = 8, 16, 32  # flags, above the three bits of who decided
_LONGEST = 200  # characters
_BY = {by: at for at, by in enumerate(BY)}
_DOUBLE, _DOUBLES = struct.Struct(">d"), struct.Struct(">dd")
_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")
_UNKNOWN = "the token is signed, but of a form that this release does not know; upgrade tensorbandits here"
_SECRET = "for example python -c 'import secrets; print(secrets.token_hex(32))'"


class TokenRefusedError(TensorbanditsError, ValueError):
    """A token was not made by a decider with these keys, or was altered, or is of another bandit."""


class TokenExpiredError(TensorbanditsError, LookupError):
    """A token is older than rewards are taken for."""


class _Signer:
    """HMAC-SHA256 by one key, whose two blocks are hashed once: a third of the time of ``hmac.digest``.

    Unlike that it does not let another thread run in between, for which a decision would then have to wait.
    """

    def __init__(self, key: bytes) -> None:
        block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._inner, self._outer = (sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()[:_SIGNATURE]


class TokenKeys:
    """The keys that sign tokens, by name: the first signs, all are good for checking. Nothing shows them.

    >>> TokenKeys({"2026-11": b"0123456789abcdef", "2026-10": b"fedcba9876543210"})
    TokenKeys(2026-11, 2026-10)
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not isinstance(keys, Mapping) or not keys:
            raise ValueError(f'no token keys are given; give a secret by name, keys={{"2026-11": b"..."}}: {_SECRET}')
        self.names = tuple(keys)
        self._by_id: dict[bytes, _Signer] = {}
        for name, key in keys.items():
            if not isinstance(name, str) or not name or not isinstance(key, bytes) or len(key) < _LEAST_KEY:
                raise ValueError(
                    f"the token key {name!r} is too short or no bytes; a key is at least {_LEAST_KEY} secret bytes, "
                    f"by name: {_SECRET}"
                )
            if (number := sha256(name.encode()).digest()[:_KEY]) in self._by_id:
                raise ValueError(f"the name {name!r} of a token key cannot be told from another one's; rename it")
            self._by_id[number] = _Signer(key)
        self.number, self._signer = next(iter(self._by_id.items()))

    @classmethod
    def of(cls, keys: TokenKeys | Mapping[str, bytes] | str | None) -> TokenKeys:
        """Return keys that are given as such, by name, as text ``name=secret,name=secret``, or by the environment.

        >>> TokenKeys.of("2026-11=0123456789abcdef0123456789abcdef, 2026-10=fedcba9876543210")
        TokenKeys(2026-11, 2026-10)
        """
        if isinstance(keys, TokenKeys):
            return keys
        text = os.environ.get(KEYS_VARIABLE) if keys is None else keys
        if text is None:
            raise ValueError(
                f"no token keys are given, which sign the ids of decisions; set {KEYS_VARIABLE}=2026-11=SECRET, the "
                f"same wherever tokens are made or read, or give keys: {_SECRET}"
            )
        if not isinstance(text, str):
            return cls(text)
        pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
        if any(not (name and sign and secret) for name, sign, secret in pairs):
            raise ValueError(f"{KEYS_VARIABLE} cannot be read; write name=secret, with commas between several")
        if len({name for name, _, _ in pairs}) < len(pairs):
            raise ValueError(f"{KEYS_VARIABLE} names a key twice; give each a name of its own")
        return cls({name.strip(): secret.strip().encode() for name, _, secret in pairs})

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes by the first key."""
        return self._signer.sign(content)

    def signed(self, number: bytes, content: bytes, signature: bytes) -> bool | None:
        """Say whether a signature is that of a key of this number; ``None`` if there is no such key."""
        signer = self._by_id.get(number)
        return None if signer is None else hmac.compare_digest(signer.sign(content), signature)

    def __repr__(self) -> str:
        return f"TokenKeys({', '.join(self.names)})"


class Token(NamedTuple):
    """What a decision was, as its id says.

    ``chances`` are those that the policy, and that the holdout, would make it: see
    :class:`~tensorbandits.bandit.commands.Drawn`. Two tokens are never the same.
    """

    uid: str
    time: float
    version: int
    draw: int | None
    by: str
    cell: Cell
    propensity: float | None
    chances: tuple[float, float]
    random: bytes

    @classmethod
    def read(
        cls,
        text: str,
        keys: TokenKeys,
        uid: str | None = None,
        *,
        oldest: Span | None = None,
        now: float | None = None,
    ) -> Self:
        """Return what a token says; refuse one that is forged, altered, of another bandit, or too old.

        ``uid`` is that of the bandit, ``None`` for any. Tokens of before ``now`` less the ``oldest`` age are refused.

        >>> keys = TokenKeys({"a": bytes(16)})
        >>> drawn = Drawn((1, 200), 0.25, "policy", draw=3)
        >>> text = token_head(keys, "00" * 8, 7, drawn).token(1_700_000_000.5)
        >>> Token.read(text, keys, "00" * 8)[:7]
        ('0000000000000000', 1700000000.5, 7, 3, 'policy', (1, 200), 0.25)
        >>> Token.read(text[:40] + ("A" if text[40] != "A" else "B") + text[41:], keys)
        Traceback (most recent call last):
        tensorbandits.decider.tokens.TokenRefusedError: the token ... was not signed by ...
        """
        content = _decoded(text)
        number = content[1 : 1 + _KEY]
        fine = keys.signed(number, content[:-_SIGNATURE], content[-_SIGNATURE:])
        if not fine:
            why = f"which are {', '.join(keys.names)}" if fine is None else "or it was altered"
            raise TokenRefusedError(
                f"the token {_shown(text)} was not signed by a key that is known here, {why}; give decision.id "
                "unchanged, and the same keys wherever tokens are made or read"
            )
        found = cls._of(content)
        if uid is not None and found.uid != uid:
            raise TokenRefusedError(
                f"the token {_shown(text)} is of another bandit, or of one that was made anew since; tell its reward "
                "where it was decided"
            )
        if oldest is not None and now is not None and found.time < now - oldest.length:
            raise TokenExpiredError(
                f"the decision of the token {_shown(text)} was made {_age(now - found.time)} ago, and rewards are "
                f"taken for {_age(oldest.length)}"
            )
        return found

    @classmethod
    def _of(cls, content: bytes) -> Self:
        """Return what bytes say whose signature is good."""
        try:
            return cls._parsed(content)
        except (IndexError, struct.error):
            raise TokenRefusedError(_UNKNOWN) from None

    @classmethod
    def _parsed(cls, content: bytes) -> Self:
        at = 1 + _KEY + UID_BYTES
        uid, flags = content[1 + _KEY : at].hex(), content[at]
        version, at = _number(content, at + 1)
        draw, propensity, chances = None, None, (1.0, 0.0)
        if flags & _DRAW:
            signed, at = _number(content, at)
            draw = -(signed >> 1) - 1 if signed & 1 else signed >> 1
        count, at = _number(content, at)
        cell = []
        for _ in range(count):
            level, at = _number(content, at)
            cell.append(level)
        if flags & _PROPENSITY:
            (propensity,) = _DOUBLE.unpack_from(content, at)
            at += 8
        if flags & _CHANCES:
            chances = _DOUBLES.unpack_from(content, at)
            at += 16
        if at != len(content) - _TAIL:
            raise TokenRefusedError(_UNKNOWN)
        time, random = int.from_bytes(content[at : at + _TIME], "big") / 1e3, content[at + _TIME : -_SIGNATURE]
        return cls(uid, time, version, draw, BY[flags & 7], tuple(cell), propensity, chances, random)


class TokenHeads:
    """Makes the bytes that all tokens of one arm begin with, for one snapshot of a bandit."""

    def __init__(self, keys: TokenKeys, uid: str, version: int) -> None:
        self.keys = keys
        self._start = bytes((_FORMAT,)) + keys.number + bytes.fromhex(check_uid(uid))
        self._version = _varint(version)

    def head(self, drawn: Drawn) -> bytes:
        """Return what tokens of an arm that was drawn in one way begin with."""
        cell, draw, chances, flags = drawn.cell, b"", b"", _BY[drawn.by]
        propensity = b""
        if drawn.draw is not None:
            flags |= _DRAW
            draw = _varint(drawn.draw << 1 if drawn.draw >= 0 else (-drawn.draw - 1) << 1 | 1)
        if drawn.propensity is not None:
            flags |= _PROPENSITY
            propensity = _DOUBLE.pack(drawn.propensity)
        if drawn.chances != (1.0, 0.0):
            flags |= _CHANCES
            chances = _DOUBLES.pack(*drawn.chances)
        short = len(cell) < 128 and max(cell) < 128
        levels = bytes((len(cell), *cell)) if short else _varint(len(cell)) + b"".join(map(_varint, cell))
        head = b"".join((self._start, bytes((flags,)), self._version, draw, levels, propensity, chances))
        if len(head) + _TAIL > _LONGEST * 3 // 4:
            raise ValueError(
                f"a token of {len(cell)} modes would be longer than {_LONGEST} characters; decide for spaces with so "
                "many modes through the service, whose ids are short"
            )
        return head


class TokenHead(NamedTuple):
    """What the tokens of one arm begin with, and the keys that sign them."""

    content: bytes
    keys: TokenKeys

    def token(self, time: float) -> str:
        """Return a new token of a decision at a time."""
        return make_token(self.content, self.keys, int(time * 1e3), os.urandom(_RANDOM))


def token_head(keys: TokenKeys, uid: str, version: int, drawn: Drawn) -> TokenHead:
    """Return what tokens of an arm that was drawn in one way begin with."""
    return TokenHead(TokenHeads(keys, uid, version).head(drawn), keys)


def make_token(head: bytes, keys: TokenKeys, milliseconds: int, random: bytes) -> str:
    """Return the token of a head, a time, and 8 random bytes that no other token has."""
    content = head + milliseconds.to_bytes(_TIME, "big") + random
    return _encoded(content + keys.sign(content))


def looks_like_token(text: object) -> bool:
    """Say whether a text could be a token, so that whoever knows ids of other kinds can tell them apart."""
    try:
        _decoded(text)
    except TokenRefusedError:
        return False
    return True


def _encoded(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).translate(_TO_URL).rstrip(b"=\n").decode()


def _decoded(text: object) -> bytes:
    """The bytes of a token, of which only the form is checked."""
    least = 1 + _KEY + UID_BYTES + 3 + _TAIL
    if isinstance(text, str) and text.isascii() and len(text) <= _LONGEST and not text.endswith("="):
        coded = text.encode().translate(_FROM_URL)
        try:
            content = binascii.a2b_base64(coded + b"=" * (-len(coded) % 4), strict_mode=True)
        except binascii.Error:
            content = b""
        if len(content) >= least and content[0] == _FORMAT and _encoded(content) == text:
            return content
    raise TokenRefusedError(
        f"{_shown(text)} is no token of a decision; give decision.id as it is: letters, digits, - and _"
    )


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes((*parts, number))


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A number that starts at a place, and the place after it."""
    number, shift = 0, 0
    while content[at] > 127:
        number |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return number | content[at] << shift, at + 1


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 40 else f"{shown[:36]}...'"


def _age(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{math.floor(seconds / length)} {unit}"
    return f"{seconds:.0f} s"
