"""Tokens say what was decided, and nobody can write or change one without a key."""

import hmac
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits.bandit.commands import Drawn
from tensorbandits.bandit.spans import Span
from tensorbandits.decider.tokens import (
    KEYS_VARIABLE,
    Token,
    TokenExpiredError,
    TokenKeys,
    TokenRefusedError,
    looks_like_token,
    make_token,
    token_head,
)

UID = "00112233445566ff"
NEW, OLD = b"new secret of sixteen", b"old secret of sixteen"
KEYS = TokenKeys({"2026-11": NEW, "2026-10": OLD})
NOW = 1_795_000_000.0

chance = st.floats(0.0, 1.0)
drawns = st.builds(
    Drawn,
    st.lists(st.integers(0, 2**40), min_size=1, max_size=6).map(tuple),
    st.none() | st.floats(1e-300, 1.0),
    st.sampled_from(["policy", "floor", "holdout", "caller"]),
    note=st.none(),
    version=st.none(),
    would=st.none(),
    draw=st.none() | st.integers(-(2**40), 2**40),
    chances=st.just((1.0, 0.0)) | st.tuples(chance, chance),
)


def made(drawn: Drawn, *, keys: TokenKeys = KEYS, uid: str = UID, version: int = 7, time: float = NOW) -> str:
    return token_head(keys, uid, version, drawn).token(time)


@given(drawns, st.integers(1, 2**50), st.integers(0, 2**42).map(lambda ms: ms / 1e3))
def test_a_token_says_what_was_decided(drawn: Drawn, version: int, time: float) -> None:
    text = made(drawn, version=version, time=time)
    found = Token.read(text, KEYS, UID)
    assert len(text) <= 200
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")
    assert (found.cell, found.propensity, found.by, found.draw, found.chances) == (
        *(drawn.cell, drawn.propensity, drawn.by, drawn.draw, drawn.chances),
    )
    assert (found.uid, found.version) == (UID, version)
    assert abs(found.time - time) <= 1e-3


def test_no_two_tokens_are_the_same() -> None:
    head = token_head(KEYS, UID, 7, Drawn((1, 2), 0.5, "policy"))
    assert len({head.token(NOW) for _ in range(1_000)}) == 1_000


@given(st.data())
@settings(max_examples=200)
def test_a_token_of_which_any_letter_is_altered_is_refused(data: st.DataObject) -> None:
    text = made(Drawn((1, 200), 0.25, "policy", draw=3, chances=(0.9, 0.1)))
    at = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(
        st.sampled_from(string.ascii_letters + string.digits + "-_+/= é").filter(lambda c: c != text[at])
    )
    with pytest.raises(TokenRefusedError):
        Token.read(text[:at] + letter + text[at + 1 :], KEYS, UID)


@pytest.mark.parametrize("cut", [0, 1, 20, 60, -1, -4])
def test_a_token_that_is_cut_or_longer_is_refused(cut: int) -> None:
    text = made(Drawn((1, 200), 0.25, "policy"))
    for wrong in (text[:cut], text + "A" * (abs(cut) + 1), text + "=", text[: len(text) // 2] * 2):
        with pytest.raises(TokenRefusedError, match=r"no token|not signed"):
            Token.read(wrong, KEYS, UID)


@pytest.mark.parametrize("wrong", ["", "visit-1", "3f2a-7", None, 7, b"AAAA", "é" * 90, "A" * 5_000])
def test_what_is_no_token_is_refused_and_shown_short(wrong: object) -> None:
    with pytest.raises(TokenRefusedError, match=r"is no token of a decision; give decision\.id") as refused:
        Token.read(wrong, KEYS, UID)  # type: ignore[arg-type]
    assert len(str(refused.value)) < 200
    assert not looks_like_token(wrong)


def test_a_token_that_other_keys_signed_is_refused() -> None:
    other = TokenKeys({"2026-11": b"another secret of ours"})
    with pytest.raises(TokenRefusedError, match="was not signed by a key that is known here, or it was altered"):
        Token.read(made(Drawn((1,), 0.5, "policy"), keys=other), KEYS, UID)
    unknown = TokenKeys({"2027-01": NEW})
    with pytest.raises(TokenRefusedError, match="which are 2026-11, 2026-10"):
        Token.read(made(Drawn((1,), 0.5, "policy"), keys=unknown), KEYS, UID)


@given(key=st.binary(min_size=16, max_size=200), content=st.binary(max_size=300))
def test_a_signature_is_the_beginning_of_hmac_sha256(key: bytes, content: bytes) -> None:
    assert TokenKeys({"a": key}).sign(content) == hmac.digest(key, content, "sha256")[:16]


def test_keys_rotate_the_first_signs_and_all_are_good_for_reading() -> None:
    before = made(Drawn((1,), 0.5, "policy"), keys=TokenKeys({"2026-10": OLD}))
    after = made(Drawn((1,), 0.5, "policy"))
    assert Token.read(before, KEYS, UID).cell == Token.read(after, KEYS, UID).cell == (1,)
    with pytest.raises(TokenRefusedError, match="not signed"):
        Token.read(after, TokenKeys({"2026-10": OLD}), UID)


def test_a_token_of_another_bandit_is_refused() -> None:
    text = made(Drawn((1,), 0.5, "policy"), uid="ff" * 8)
    with pytest.raises(TokenRefusedError, match="is of another bandit, or of one that was made anew"):
        Token.read(text, KEYS, UID)
    assert Token.read(text, KEYS).uid == "ff" * 8


def test_a_token_expires_at_the_stated_age() -> None:
    text, month = made(Drawn((1,), 0.5, "policy")), Span.of("30 days", "expires")
    assert Token.read(text, KEYS, UID, oldest=month, now=NOW + 30 * 86_400 - 1).time == NOW
    with pytest.raises(TokenExpiredError, match=r"made 30 days ago, and rewards are taken for 30 days"):
        Token.read(text, KEYS, UID, oldest=month, now=NOW + 30 * 86_400 + 1)


@pytest.mark.parametrize("form", ["flags", "levels", "longer"])
def test_a_token_of_a_form_that_is_not_known_is_refused_though_it_is_signed(form: str) -> None:
    head = token_head(KEYS, UID, 7, Drawn((1, 200), 0.25, "policy")).content
    content = {
        "flags": head[:13] + bytes((head[13] | 7,)) + head[14:],
        "levels": head[:15] + bytes((120,)) + head[16:],
        "longer": head + bytes(5),
    }[form]
    with pytest.raises(TokenRefusedError, match="of a form that this release does not know; upgrade"):
        Token.read(make_token(content, KEYS, int(NOW * 1e3), bytes(8)), KEYS, UID)


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, f"2026-11={NEW.decode()},2026-10={OLD.decode()}")
    keys = TokenKeys.of(None)
    assert keys.names == ("2026-11", "2026-10")
    assert Token.read(made(Drawn((1,), 0.5, "policy")), keys, UID).cell == (1,)
    monkeypatch.delenv(KEYS_VARIABLE)
    with pytest.raises(ValueError, match=f"no token keys are given.*set {KEYS_VARIABLE}"):
        TokenKeys.of(None)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "no token keys are given"),
        ({"a": b"short"}, "too short or no bytes; a key is at least 16 secret bytes"),
        ({"a": "text of more than 16 letters"}, "too short or no bytes"),
        ({"": NEW}, "too short or no bytes"),
        ("nothing", "cannot be read; write name=secret"),
        ("a=,b=1", "cannot be read"),
        ("a=0123456789abcdef,a=0123456789abcdee", "names a key twice"),
    ],
)
def test_keys_that_cannot_be_are_refused_and_not_shown(keys: object, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        TokenKeys.of(keys)  # type: ignore[arg-type]
    assert "0123456789abcde" not in str(refused.value)


def test_keys_are_never_shown() -> None:
    assert repr(KEYS) == str(KEYS) == "TokenKeys(2026-11, 2026-10)"


def test_a_space_of_too_many_modes_is_refused() -> None:
    with pytest.raises(ValueError, match="a token of 120 modes would be longer than 200 characters"):
        token_head(KEYS, UID, 1, Drawn((1,) * 120, 0.5, "policy"))
    assert len(made(Drawn((1,) * 40, 0.5, "policy"))) <= 200
