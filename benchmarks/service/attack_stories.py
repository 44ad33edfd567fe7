"""Stories: a few commands in a row whose answers are known beforehand, at servers chosen at random.

A story is left as soon as a request got no answer, since then nothing is known any more.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from benchmarks.service.attack_records import Exchange, Json

if TYPE_CHECKING:
    from benchmarks.service.attack_clients import Client
    from benchmarks.service.attack_tenants import Sender


class LeftError(Exception):
    """Something went otherwise than known beforehand, so that the story cannot go on."""


def tell(client: Client) -> None:
    """Go through one story that a tenant's settings allow."""
    kind = client.tenant.kind
    stories: list[Callable[[Client], None]] = [guessed_ids, key_for_two_lists, key_for_two_decisions, one_id_at_once]
    stories += [half_closed]
    if kind == "apprentice":
        stories = [tiny_propensities]
    elif kind == "forgetful":
        stories += [forgotten_pair] * 4
    elif kind == "adding":
        stories += [key_for_two_sums] * 2
    if kind in ("patient", "hasty", "fading"):
        stories += [repeated_after_an_amendment] * 2
    with contextlib.suppress(LeftError):
        client.rng.choice(stories)(client)


def _post(client: Client, what: str, route: str, body: Json, **more: Any) -> Exchange:
    """Send a request; leave the story if it was not acknowledged."""
    one = client.send(what, "POST", client.tenant.path(route), body, **more)
    if not one.done:
        raise LeftError
    return one


def _wrong(client: Client, promise: str, words: str, one: Exchange) -> None:
    client.diary.findings.add(promise, words, client.tenant.name, one)


def _at_once(client: Client, send: Callable[[Sender, int], Exchange]) -> list[Exchange]:
    """Send two requests at the same time."""
    beside = client.beside()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(send, beside, 1)
        found = [send(client, 0), other.result()]
    beside.close()
    return found


def _context(client: Client) -> Json:
    return {"context": {"segment": client.rng.choice(client.tenant.modes["segment"])}}


def forgotten_pair(client: Client) -> None:
    """Where one closed decision is remembered: tell an old and the last one together, the last one amended."""
    first = _post(client, "ask", "ask", _context(client)).answer["id"]
    second = _post(client, "ask", "ask", _context(client)).answer["id"]
    _post(client, "tell", "tell", {"id": second, "reward": 1})
    both = [{"id": first, "reward": 2}, {"id": second, "reward": 3, "amend": True}]
    _post(client, "tell-many", "tell-many", {"rewards": both}, expects=(200,))
    _post(client, "ask", "ask", _context(client), expects=(200,))


def guessed_ids(client: Client) -> None:
    """Ask with the ids that the service would give next; decisions after that have other ids, and are made."""
    at = client.replica()
    given = _post(client, "ask", "ask", _context(client), replica=at).answer["id"]
    token, _, serial = given.rpartition("-")
    if not serial.isdigit():
        return
    for more in range(1, 5):
        guess = {**_context(client), "id": f"{token}-{int(serial) + more}"}
        client.send("ask with a guessed id", "POST", client.tenant.path("ask"), guess, group=f"id {guess['id']}",
                    expects=(200, 409, 422), replica=at)  # fmt: skip
    for _ in range(6):
        _post(client, "ask", "ask", _context(client), expects=(200,), replica=at)


def tiny_propensities(client: Client) -> None:
    """Say that the own rule plays what it plays almost never."""
    modes = client.tenant.modes
    played = {mode: client.rng.choice(modes[mode]) for mode in ("offer", "channel")}
    for propensity in (5e-324, 2.2e-308, 1e-290):
        body = {**_context(client), "played": played, "propensity": propensity}
        made = _post(client, "ask with a tiny propensity", "ask", body, expects=(200, 422))
        _post(client, "tell", "tell", {"id": made.answer["id"], "reward": 1}, expects=(200, 410))


def key_for_two_lists(client: Client) -> None:
    """Ask with a key, and with the same key for other arms: the second is refused."""
    offers, key, context = client.tenant.modes["offer"], client.fresh("key-"), _context(client)
    _post(client, "ask", "ask", {**context, "allowed": {"offer": offers[:1]}}, key=key)
    other = {**context, "allowed": {"offer": offers[1:2]}}
    again = client.send("ask with a used key", "POST", client.tenant.path("ask"), other, key=key, group=f"{key} other",
                        expects=(409, 410, 422))  # fmt: skip
    if again.done:
        _wrong(client, "a key stands for one request", "the key was used for other arms before", again)


def key_for_two_decisions(client: Client) -> None:
    """Tell two decisions' rewards with one key, at once, at two servers: only one is taken."""
    ids = [_post(client, "ask", "ask", _context(client)).answer["id"] for _ in range(2)]
    key, path = client.fresh("key-"), client.tenant.path("tell")
    add = {"add": True} if client.tenant.kind == "adding" else {}

    def send(sender: Sender, number: str) -> Exchange:
        body = {"id": number, "reward": 1, **add}
        more = {"group": f"{key} {number}", "expects": (200, 404, 409, 410)}
        return sender.send("tell with one key", "POST", path, body, key=key, **more)

    found = _at_once(client, lambda sender, at: send(sender, ids[at]))
    if all(one.done and one.answer["changed"] for one in found):
        _wrong(client, "a key stands for one request", "two rewards were taken with one key", found[1])


def key_for_two_sums(client: Client) -> None:
    """Add 1, and add 5 with the same key: the second is refused, and not dropped in silence."""
    number = _post(client, "ask", "ask", _context(client)).answer["id"]
    key = client.fresh("key-")
    _post(client, "tell", "tell", {"id": number, "reward": 1, "add": True}, key=key)
    body, path = {"id": number, "reward": 5, "add": True}, client.tenant.path("tell")
    again = client.send("tell with a used key", "POST", path, body, key=key, group=f"{key} other",
                        expects=(409, 410, 422))  # fmt: skip
    if again.done:
        _wrong(client, "a key stands for one request", "5 was added with the key that had added 1", again)


def repeated_after_an_amendment(client: Client) -> None:
    """Tell what is known already, with a key; amend it; repeat the first: the amendment stays."""
    number = _post(client, "ask", "ask", _context(client)).answer["id"]
    key, telling = client.fresh("key-"), {"id": number, "reward": 1, "amend": True}
    _post(client, "tell", "tell", {"id": number, "reward": 1})
    _post(client, "tell", "tell", telling, key=key)
    _post(client, "tell", "tell", {"id": number, "reward": 0, "amend": True})
    again = _post(client, "tell again", "tell", telling, key=key)
    if again.answer["changed"]:
        _wrong(client, "a repeated request changes nothing", "the repeated reward undid an amendment", again)


def one_id_at_once(client: Client) -> None:
    """Ask with one id at two servers at once: both get the same decision."""
    body = {**_context(client), "id": client.fresh("own-")}
    group, path = f"id {body['id']}", client.tenant.path("ask")

    def send(sender: Sender, _: int) -> Exchange:
        return sender.send("ask with one id", "POST", path, body, group=group, expects=(200,))

    found = _at_once(client, send)
    if all(one.done for one in found) and found[0].answer != found[1].answer:
        _wrong(client, "one id is one decision", f"also answered: {found[0].words()}", found[1])


def half_closed(client: Client) -> None:
    """Say that nothing more will be sent, as some clients do after a request, and wait for the answer."""
    at = client.replica()
    if client.diary.trouble.now(at):
        return
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    found = b""
    try:
        with socket.create_connection(("127.0.0.1", client.port(at)), timeout=10) as connection:
            connection.sendall(head)
            connection.shutdown(socket.SHUT_WR)
            found = connection.recv(100)
    except OSError as error:
        found = repr(error).encode()
    if not found.startswith(b"HTTP/1.1 200") and not client.diary.trouble.now(at):
        promise = "a caller that has said all is answered"
        client.diary.findings.add(promise, f"/healthz answered {found!r} to a half-closed connection")
