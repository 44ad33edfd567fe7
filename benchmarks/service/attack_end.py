"""The end of an attack: what must hold when all faults are over, in the store itself, and after a restart."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence

from benchmarks.service.attack_checks import check_life
from benchmarks.service.attack_log import count
from benchmarks.service.attack_records import Diary, Json
from benchmarks.service.attack_servers import Place, command
from benchmarks.service.attack_tenants import Sender, Tenant

LOST = "no bandit is lost: each answers when all faults are over, and after a restart"
_REPLAYED = re.compile(r"^(\S+): ([\d,]+) events, ([\d,]+) decisions, (\S+) rewards that add up to (\S+), ([\d,]+) dec")


def check_end(diary: Diary, place: Place, everybody: Sequence[Tenant]) -> None:
    """Check everything when all faults are over, then what is in the store, and then a restart."""
    over = time.monotonic()
    senders = [Sender(diary, tenant, place.ports, "end") for tenant in everybody]
    for sender in senders:
        for at in range(sender.servers):
            _alive(sender, at, over + 20)
    time.sleep(2.5)  # the longest of the short windows
    _settle(senders)
    read = {sender.tenant.name for sender in senders if check_life(sender, over)}
    for sender in senders:
        sender.close()
    for at, server in enumerate(place.servers):
        if server.runs and not server.end(signal.SIGTERM):
            diary.findings.add("a server ends in order when it is asked to", f"server {at} did not within 30 s")
    details = _stored(diary, place, everybody, read)
    _replay(diary, place, details)
    _restart(diary, place, everybody, details)


def _alive(sender: Sender, replica: int, end: float) -> None:
    """Find a bandit that a server does not answer for, however often it is asked until some time."""
    while True:
        one = sender.send("detail", "GET", sender.tenant.path(), secret=sender.tenant.manage, replica=replica)
        body = {"context": {"segment": sender.tenant.modes["segment"][0]}}
        ask = sender.send("ask", "POST", sender.tenant.path("ask"), body, replica=replica)
        if one.done and (ask.done or ask.status == 422):
            return
        if time.monotonic() > end:
            break
        time.sleep(0.5)
    sender.diary.findings.add(LOST, f"no answer from server {replica}", sender.tenant.name, ask)


def _settle(senders: Sequence[Sender], seconds: float = 10.0) -> None:
    """Wait until windows that ended are in the log."""
    end = time.monotonic() + seconds
    for hasty in (sender for sender in senders if sender.tenant.kind == "hasty"):
        waiting = None
        while time.monotonic() < end:
            one = hasty.send("detail", "GET", hasty.tenant.path(), secret=hasty.tenant.manage)
            if not one.done or one.answer["waiting"] == waiting:
                return
            waiting = one.answer["waiting"]
            time.sleep(2)


def _stored(diary: Diary, place: Place, everybody: Sequence[Tenant], read: set[str]) -> dict[str, Json]:
    """Read the store itself, and return what each bandit's events add up to."""
    from tensorbandits.store import Store

    found: dict[str, Json] = {}
    with Store.open(place.url) as store:
        rows = {row.name: row for row in store.bandits()}
        for tenant in everybody:
            if tenant.name not in read:
                continue
            if tenant.name not in rows:
                diary.findings.add(LOST, "the store has no such bandit", tenant.name)
                continue
            events = [
                {"seq": event.seq, "kind": event.kind, "decision": event.decision, "body": event.body}
                for event in store.events(rows[tenant.name].id)
            ]
            first = events[0]["seq"] if events else 0
            events = [event for event in tenant.life.archive if event["seq"] < first] + events
            found[tenant.name] = {"events": events[-1]["seq"], "kind": tenant.kind, **count(events)}
    return found


def _replay(diary: Diary, place: Place, stored: dict[str, Json]) -> None:
    """Compare what ``tensorbandits replay`` says with what the events add up to."""
    promise = "replaying the log says what its events add up to, and agrees with snapshots"
    done = command("replay", "--store", place.url)
    lines = {found[1]: found for line in done.stdout.splitlines() if (found := _REPLAYED.match(line))}
    if done.returncode:
        diary.findings.add(promise, f"it ends with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    for name, expected in stored.items():
        if name not in lines:
            diary.findings.add(promise, "it says nothing", name)
            continue
        numbers = [float(text.replace(",", "")) for text in lines[name].groups()[1:]]
        said = dict(zip(("events", "decisions", "rewards", "sum", "waiting"), numbers, strict=True))
        sums = () if expected["kind"] in ("fading", "reckless") else ("rewards", "sum")
        for what in ("events", "decisions", "waiting", *sums):
            if abs(said[what] - expected[what]) > 1e-5 * abs(expected[what]):  # it rounds to six digits
                diary.findings.add(promise, f"{what}: it says {said[what]:g}, events {expected[what]:g}", name)


def _restart(diary: Diary, place: Place, everybody: Sequence[Tenant], stored: dict[str, Json]) -> None:
    """Start one server again, and ask it for every bandit."""
    server = place.servers[0]
    server.start()
    if not server.wait():
        diary.findings.add(LOST, f"after a restart the server is not ready; it wrote: {server.words()}")
        return
    end = time.monotonic() + 15
    for tenant in everybody:
        sender = Sender(diary, tenant, place.ports, "restart")
        one = sender.send("detail", "GET", tenant.path(), secret=tenant.manage, replica=0)
        expected = stored.get(tenant.name)
        if expected is not None and one.done and one.answer["decisions"] != expected["decisions"]:
            words = f"{one.answer['decisions']} decisions are known after a restart, {expected['decisions']} are stored"
            diary.findings.add(LOST, words, tenant.name, one)
        _alive(sender, 0, end)
        sender.close()
    server.end(signal.SIGTERM)
