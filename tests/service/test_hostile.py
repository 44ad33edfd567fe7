"""What one caller, one damaged row or one wrong clock may do to the service, and must not do to the others."""

import contextlib
import json
import random
import re
import socket
import sqlite3
import stat
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.processes import PATIENCE, Server, all_events, command, post, talk
from tests.service.served import Service, until

ONE_MODE = {"modes": {"offer": ["a", "b"]}, "context": ()}
ENDS = {"Rewarded": "rewarded", "Amended": "rewarded", "TimedOut": "timed out", "Cancelled": "cancelled"}


def became(events):
    """Return the status and the reward of each decision, as the log says."""
    found = {}
    for event in events:
        if event["kind"] == "Decided":
            found[event["decision"]] = "open" if event["body"].get("active", True) else "inactive", None
        elif event["kind"] == "Activated":
            found[event["decision"]] = "open", None
        elif event["kind"] in ENDS:
            found[event["decision"]] = ENDS[event["kind"]], event["body"].get("reward")
    return found


def known(bandit, ids):
    """Return what the service says of decisions."""
    return {one: (bandit.look_up(one)["status"], bandit.look_up(one)["reward"]) for one in ids}


def check_restart(service, names):
    """Restart a service, and assert that bandits are as they were, and go on."""
    before = {name: (service.bandit(name).detail(), all_events(service.bandit(name))) for name in names}
    service.stop()
    with service.restarted() as again:
        for name, (detail, events) in before.items():
            bandit = again.bandit(name)
            assert bandit.detail() == detail
            assert all_events(bandit) == events
            ids = [event["decision"] for event in events if event["kind"] == "Decided"]
            assert known(bandit, ids) == became(events)
            made = bandit.post("/ask", {"context": {"segment": "new"}} if "segment" in detail["modes"] else {})
            assert made["id"] not in ids
            bandit.tell(made["id"], 1)
        replayed = command("replay", "--store", service.store)
        assert replayed.code == 0, replayed.words


class Stoppable(Service):
    """A service that a test may stop before its end."""

    def stop(self):
        if not self.stopped:
            self.stopped = True
            self.__exit__()

    stopped = False


@pytest.fixture
def own(tmp_path):
    """A service over an empty store, which a test may stop."""
    service = Stoppable(tmp_path / "own.db").__enter__()
    yield service
    service.stop()


# Commands of one transaction are planned one after the other.


def test_what_one_request_forgets_another_of_its_transaction_does_not_change(own):
    bandit, other = own.create("offers", remember=1), own.create("others")
    x, y = bandit.ask()["id"], bandit.ask()["id"]
    bandit.tell(y, 1)
    orders = [{"id": x, "reward": 2}, {"id": y, "reward": 3, "amend": True}]
    results = bandit.post("/tell-many", {"rewards": orders})["results"]
    told = Counter((event["decision"], event["body"].get("reward")) for event in all_events(bandit))
    for order, result in zip(orders, results):
        assert told[order["id"], order["reward"]] == ("error" not in result), result
    assert "error" not in results[0]
    assert bandit.ask()["id"] not in (x, y)
    other.tell(other.ask()["id"], 1)
    assert known(bandit, [x, y]) == {one: became(all_events(bandit))[one] for one in (x, y)}
    check_restart(own, ["offers", "others"])


def waiting(events):
    """How many decisions wait: of those that were shown, or of those that were not, whichever are more."""
    closed = {one["decision"] for one in events if one["kind"] in ("Rewarded", "TimedOut", "Cancelled")}
    left = [one for one in events if one["kind"] == "Decided" and one["decision"] not in closed]
    shown = sum(one["body"].get("active", True) for one in left)
    return max(shown, len(left) - shown)


def test_everything_acknowledged_in_a_storm_on_a_short_memory_is_explained_by_the_log(own):
    bandit = own.create("offers", remember=3, capacity=5)
    lock, ids, made, told, cancelled = threading.Lock(), [], {}, [], []
    numbers = iter(range(1, 100_000))  # each reward is told once, so that the log says which ones were taken

    def some(rng):
        return rng.choice(ids[-12:])

    def visit(seed):
        rng = random.Random(seed)
        for at in range(75):
            kind = rng.random()
            if kind < 0.35 or not ids:
                answer = bandit.ask(rng.choice(["new", "old"]), activate=rng.random() < 0.8)
                with lock:
                    ids.append(answer["id"])
                    made[answer["id"]] = answer["arm"]
            elif kind < 0.9:
                with lock:
                    chosen = [(some(rng), next(numbers)) for _ in range(rng.randint(1, 6))]
                orders = [{"id": one, "reward": value, "amend": rng.random() < 0.6} for one, value in chosen]
                results = bandit.post("/tell-many", {"rewards": orders}, key=f"{seed}-{at}")["results"]
                with lock:
                    told.extend(zip(orders, results))
            else:
                answer = bandit.send("POST", "/cancel", json={"id": some(rng)})
                assert answer.status_code in (200, 404, 409, 410), answer.text
                with lock:
                    cancelled.append(answer.json())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(visit, range(4)))
    events = all_events(bandit)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    decided = Counter(event["decision"] for event in events if event["kind"] == "Decided")
    assert decided == Counter(list(made))
    rewards = Counter(
        (event["decision"], event["body"]["reward"]) for event in events if event["kind"] in ("Rewarded", "Amended")
    )
    for order, result in told:
        taken = "error" not in result
        assert rewards[order["id"], order["reward"]] == taken, (order, result)
        assert not taken or result["changed"], (order, result)
    assert sum(rewards.values()) == sum("error" not in result for _, result in told) > 0
    ended = Counter(event["decision"] for event in events if event["kind"] == "Cancelled")
    acknowledged = Counter(one["id"] for one in cancelled if one.get("changed"))
    assert not acknowledged - ended
    assert all(bandit.look_up(one)["arm"] == arm for one, arm in made.items())
    until(lambda: waiting(all_events(bandit)) <= 5)  # those beyond the capacity are closed within a second
    check_restart(own, ["offers"])


def test_automatic_ids_step_aside_for_ids_of_callers(own):
    bandit, other = own.create("offers"), own.create("others")
    seen = [bandit.ask()["id"]]
    for ahead in (1, 3, 4, 7):
        token, number, rest = re.fullmatch(r"(\w+-)(\d+)(.*)", seen[-1]).groups()
        wanted = f"{token}{int(number) + ahead}{rest}"
        answer = bandit.send("POST", "/ask", json={"context": {"segment": "new"}, "id": wanted})
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == wanted
        seen += [wanted, *(bandit.ask()["id"] for _ in range(5))]
    token, number, rest = re.fullmatch(r"(\w+-)(\d+)(.*)", seen[-1]).groups()
    requests = [{"context": {"segment": "new"}, "id": f"{token}{int(number) + at}{rest}"} if at % 3 else {
        "context": {"segment": "new"}} for at in range(1, 30)]  # fmt: skip
    answers = bandit.post("/ask-many", {"requests": requests})["decisions"]
    seen += [one["id"] for one in answers]
    seen += [bandit.ask()["id"] for _ in range(30)]
    assert len(seen) == len(set(seen))
    for one in seen[::7]:
        bandit.tell(one, 1)
    other.tell(other.ask()["id"], 1)
    assert sorted(event["decision"] for event in all_events(bandit) if event["kind"] == "Decided") == sorted(seen)
    check_restart(own, ["offers", "others"])


# A request's failure is its own.

TINY = (5e-324, 1e-323, 1e-320, 1e-310, 2.3e-308, 1e-300)


def test_a_propensity_next_to_nothing_fails_nobody_else(own):
    apprentice = own.create("apprentice", apprentice=True, floors=0.5)
    victim = own.create("victim", {"segment": ["new", "old"], "secret": ["x1", "x2"]})
    attacks, asked = [], []

    def attack(seed):
        for at in range(60):
            body = {"context": {"segment": "new"}, "played": {"offer": "a", "channel": "sms"}}
            body["propensity"] = TINY[(seed + at) % len(TINY)]
            attacks.append(apprentice.send("POST", "/ask", json=body))

    def ask(seed):
        for _ in range(60):
            asked.append(victim.send("POST", "/ask", json={"context": {"segment": "old"}}))

    with ThreadPoolExecutor(9) as pool:
        for done in [pool.submit(attack if at % 3 else ask, at) for at in range(9)]:
            done.result(4 * PATIENCE)
    assert Counter(answer.status_code for answer in asked) == {200: 180}
    assert {answer.status_code for answer in attacks} <= {200, 422}
    for answer in attacks:
        assert not re.search("victim|secret|x1|x2|old", answer.text), answer.text
        if answer.status_code == 422:
            assert "propensity" in answer.json()["error"]["message"]
    for answer in [one for one in attacks if one.status_code == 200][:20]:
        apprentice.tell(answer.json()["id"], 1)
    honest = apprentice.post("/ask", {"context": {"segment": "new"}, "played": {"offer": "b", "channel": "sms"}})
    apprentice.tell(honest["id"], 2)
    for what in ("overview", "decisions"):
        view = apprentice.send("GET", f"/view/{what}")
        assert view.status_code == 200, view.text
        assert not re.search("NaN|Infinity", view.text)
    before = apprentice.detail()
    own.stop()
    with own.restarted() as again:
        assert again.bandit("apprentice").detail() == before
        assert again.bandit("victim").ask()["id"]


# A change that is acknowledged holds everywhere.


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def pair(request, tmp_path_factory):
    """Two servers over one store: one of this process, and one in a process of its own."""
    if request.param == "sqlite":
        place = tmp_path_factory.mktemp("pair") / "own.db"
    else:
        place = request.getfixturevalue("postgres").create(f"pair_{uuid.uuid4().hex}")
    with Service(place) as here, Server(place) as there:
        yield here, there


def both(pair, name, **settings):
    """Make a bandit at the first server, and return it as both have it, once the second has decided."""
    here = pair[0].create(f"{name}-{uuid.uuid4().hex[:8]}", **settings)
    there = pair[1].bandit(here.name)
    there.post("/ask", {})
    return here, there


def test_an_apprentice_is_one_at_every_server_at_once(pair):
    here, there = both(pair, "apprentice", **ONE_MODE)
    for _ in range(10):
        here.patch(apprentice=True)
        answers = [there.send("POST", "/ask", json={}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [422] * 4
        here.patch(apprentice=False)
        answers = [there.send("POST", "/ask", json={}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200] * 4


def test_a_holdout_holds_at_every_server_at_once(pair):
    here, there = both(pair, "holdout", **ONE_MODE)
    found = Counter()
    for _ in range(20):
        here.patch(holdout=0.99999)
        found.update(there.post("/ask", {})["by"] for _ in range(4))
        here.patch(holdout=0)
        assert [there.post("/ask", {})["by"] for _ in range(4)] == ["policy"] * 4
    assert found["policy"] <= 1  # of 80; that there are two has a probability of 3e-7
    assert found["holdout"] >= 79


def test_a_ceiling_holds_at_every_server_at_once(pair):
    here, there = both(pair, "ceiling", **ONE_MODE)
    for at in range(20):
        barred, other = ("a", "b") if at % 2 else ("b", "a")
        here.patch(ceilings=[{"labels": {"offer": barred}, "share": 0}])
        assert [there.post("/ask", {})["arm"]["offer"] for _ in range(6)] == [other] * 6


# A damaged log harms one bandit.


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A store with a bandit to be damaged and a sound one; the rows of an older snapshot; the last event before."""
    place = tmp_path_factory.mktemp("logs") / "own.db"
    with Service(place) as service:
        hurt, sound = service.create("hurt"), service.create("sound")
        for bandit in (hurt, sound):
            ids = [bandit.ask(id=f"decision-{at}")["id"] for at in range(20)]
            for at, one in enumerate(ids[:12]):
                bandit.tell(one, at % 2)
        last = hurt.detail()["seq"]
    with contextlib.closing(sqlite3.connect(place)) as database:
        rows = database.execute("SELECT * FROM snapshots WHERE bandit = ?", [number(database)]).fetchall()
    with service.restarted() as service:
        hurt = service.bandit("hurt")
        for at in range(12, 18):
            hurt.tell(f"decision-{at}", at % 2)
        for _ in range(5):
            hurt.ask()
    return place, rows, last


def number(database):
    """Return the number of the bandit that is damaged."""
    return database.execute("SELECT id FROM bandits WHERE name = 'hurt'").fetchone()[0]


def rewarded(database):
    """Return the number of an event in the middle on which none that comes later depends."""
    query = "SELECT seq FROM events WHERE bandit = ? AND kind = 'Rewarded' ORDER BY seq LIMIT 1 OFFSET 5"
    return database.execute(query, [number(database)]).fetchone()[0]


def without_snapshots(database):
    database.execute("DELETE FROM snapshots WHERE bandit = ? AND NOT base", [number(database)])


def delete_one(database, rows, last):
    seq = rewarded(database)
    without_snapshots(database)
    database.execute("DELETE FROM events WHERE bandit = ? AND seq = ?", [number(database), seq])
    return [seq]


def change_a_reward(database, rows, last):
    seq = rewarded(database)
    without_snapshots(database)
    query = "UPDATE events SET body = ? WHERE bandit = ? AND seq = ?"
    database.execute(query, [json.dumps({"reward": 77}), number(database), seq])
    return [seq]


def break_a_body(database, rows, last):
    seq = rewarded(database)
    without_snapshots(database)
    database.execute("UPDATE events SET body = '{\"rew' WHERE bandit = ? AND seq = ?", [number(database), seq])
    return [seq]


def delete_the_first_of_the_tail(database, rows, last):
    without_snapshots(database)
    for row in rows:  # an older one
        database.execute(f"INSERT OR REPLACE INTO snapshots VALUES ({', '.join('?' * len(row))})", row)
    query = "DELETE FROM events WHERE bandit = ? AND seq IN (?, ?)"
    assert database.execute(query, [number(database), last + 1, last + 2]).rowcount == 2
    return [last + 1, last + 2]


DAMAGES = [delete_one, change_a_reward, break_a_body, delete_the_first_of_the_tail]


@pytest.fixture(params=DAMAGES, ids=lambda damage: damage.__name__.replace("_", " "))
def damaged(request, logs, tmp_path):
    """A damaged copy of the store, and the numbers of the events that are not as they were."""
    place, rows, last = logs
    copied = tmp_path / "damaged.db"
    with contextlib.closing(sqlite3.connect(place)) as source, contextlib.closing(sqlite3.connect(copied)) as target:
        source.backup(target)
        with target:
            wrong = request.param(target, rows, last)
    return copied, wrong


def rows_of(place):
    """Return the events of the bandit that is damaged, as the store has them."""
    with contextlib.closing(sqlite3.connect(place)) as database:
        query = "SELECT * FROM events WHERE bandit = ? ORDER BY seq"
        return database.execute(query, [number(database)]).fetchall()


def names_one(text, wrong):
    """Whether a text names one of the events, or the one after, which no longer follows."""
    return any(re.search(rf"\b{seq + more}\b", text) for seq in wrong for more in (0, 1))


def test_a_damaged_log_is_quarantined_and_all_others_are_served(damaged, caplog):
    place, wrong = damaged
    before = rows_of(place)
    with Service(place) as service:
        ready = service.http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["quarantined"] == ["hurt"]
        assert "bandit 'hurt' is quarantined: " in "".join(
            message for name, _, message in caplog.record_tuples if name == "tensorbandits.service"
        )
        hurt, sound = service.bandit("hurt"), service.bandit("sound")
        body = {"context": {"segment": "new"}}
        for path, sent in (("/ask", body), ("/tell", {"id": "decision-1", "reward": 1}), ("/best", body)):
            message = hurt.refused(path, sent, 503, "quarantined")
            assert names_one(message, wrong), message
        assert hurt.send("PATCH", json={"holdout": 0.5}).status_code == 503
        listed = {one["name"] for one in service.http.get("/v1/bandits").json()["bandits"]}
        assert "sound" in listed
        sound.tell(sound.ask()["id"], 1)
        assert sound.look_up("decision-1")["status"] == "rewarded"
        assert service.create("another").ask()["id"]
    assert rows_of(place) == before  # nothing was written to it


def test_the_command_line_says_what_is_damaged_and_repairs_it(damaged):
    place, wrong = damaged
    said = command("replay", "--store", place)
    assert said.code != 0, said.words
    assert any("hurt" in line and names_one(line, wrong) for line in said.words.splitlines()), said.words
    assert re.search("sound.*33 events", said.words), said.words
    shown = command("repair", "--store", place, "hurt")
    assert names_one(shown.words, wrong), shown.words
    for seq in wrong:  # one skip may do for several that are missing
        signed = ("--who", "Ann", "--why", "the disk was full")
        unsigned = command("repair", "--store", place, "hurt", "--skip", seq)
        assert unsigned.code != 0  # nobody skips in silence
        done = command("repair", "--store", place, "hurt", "--skip", seq, *signed)
        assert done.code == 0, done.words
        if command("replay", "--store", place).code == 0:
            break
    else:
        pytest.fail("the log cannot be replayed after it was repaired")
    with Service(place) as service:
        assert not service.http.get("/readyz").json().get("quarantined")
        bandit = service.bandit("hurt")
        assert bandit.ask(id="after")["id"] == "after"
        assert bandit.tell("after", 1)["changed"] is True
        assert bandit.look_up("decision-2")["reward"] == 0
        said = json.dumps(all_events(bandit))
        assert "Ann" in said
        assert "the disk was full" in said
        assert '"reward": 77' not in json.dumps(bandit.detail())


def test_repair_leaves_a_sound_bandit_alone(logs):
    shown = command("repair", "--store", logs[0], "sound")
    assert shown.code == 0, shown.words
    signed = ("--who", "Ann", "--why", "for fun")
    assert command("repair", "--store", logs[0], "sound", "--skip", 3, *signed).code != 0
    missing = command("repair", "--store", logs[0], "nobody")
    assert missing.code != 0
    assert "nobody" in missing.words


# Nobody stops the others by asking for much.


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server in a process of its own, as the command line starts it."""
    with Server(tmp_path_factory.mktemp("server") / "own.db") as server:
        yield server


@pytest.mark.parametrize("first", ["o00000", "x"], ids=["known", "unknown"])
def test_a_request_that_allows_a_million_labels_stops_nobody(server, first):
    offers = [f"o{at:05}" for at in range(10_000)]
    bandit = server.create(f"labels-{first}", {"offer": offers, "channel": ["mail", "sms"]}, context=())
    labels = [first, *(f"o{at % 10_000:05}" for at in range(7_600_000 // len('"o00000",')))]
    body = json.dumps({"allowed": {"offer": labels}}, separators=(",", ":")).encode()
    done, slowest, probes = threading.Event(), 0.0, 0
    path = f"/v1/bandits/{bandit.name}/ask"

    def send():
        try:
            with httpx.Client(base_url=server.url, timeout=2 * PATIENCE) as client:
                return client.post(path, content=body, headers={"Content-Type": "application/json"})
        finally:
            done.set()

    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.url, timeout=2 * PATIENCE) as client:
        answer = pool.submit(send)
        while not done.is_set() or not probes:
            began = time.monotonic()
            assert client.get("/healthz").status_code == 200
            slowest, probes = max(slowest, time.monotonic() - began), probes + 1
        answer = answer.result()
    assert answer.status_code in (200, 413, 422), answer.text
    assert slowest < 2.0
    if answer.status_code == 200:
        assert answer.json()["arm"]["offer"] in offers
    assert bandit.post("/ask")["id"]


# A key belongs to one request.

ASKED = {"context": {"segment": "new"}, "allowed": {"offer": ["a", "b"]}, "activate": True}
OTHERWISE = {
    "another label is allowed": {"allowed": {"offer": ["c"]}},
    "fewer labels are allowed": {"allowed": {"offer": ["a"]}},
    "another mode is allowed": {"allowed": {"channel": ["sms"]}},
    "all is allowed": {"allowed": None},
    "it is not shown": {"activate": False},
    "another context": {"context": {"segment": "old"}},
}


@pytest.mark.parametrize("by", ["key", "id"])
@pytest.mark.parametrize("what", OTHERWISE)
def test_a_key_or_id_with_another_request_is_refused(service, by, what):
    bandit = service.create()
    first = {"id": "mine", **ASKED} if by == "id" else ASKED
    key = "once" if by == "key" else None
    answer = bandit.post("/ask", first, key=key)
    assert bandit.post("/ask", first, key=key) == answer
    other = {name: value for name, value in {**first, **OTHERWISE[what]}.items() if value is not None}
    bandit.refused("/ask", other, 409, "key_reused", key=key)
    assert bandit.post("/ask", first, key=key) == answer
    assert bandit.kinds().count("Decided") == 1


@pytest.mark.parametrize("by", ["key", "id"])
@pytest.mark.parametrize("other", [{"propensity": 0.25}, {"propensity": None}, {"played": {"offer": "b"}}])
def test_a_key_or_id_of_an_apprentice_with_another_request_is_refused(service, by, other):
    bandit = service.create(modes={"offer": ["a", "b"]}, context=(), apprentice=True)
    first = {"played": {"offer": "a"}, "propensity": 0.5} | ({"id": "mine"} if by == "id" else {})
    key = "once" if by == "key" else None
    answer = bandit.post("/ask", first, key=key)
    changed = {name: value for name, value in {**first, **other}.items() if value is not None}
    bandit.refused("/ask", changed, 409, "key_reused", key=key)
    assert bandit.post("/ask", first, key=key) == answer


def test_the_same_key_does_not_add_twice_what_differs(service):
    bandit = service.create(adds=True)
    one = bandit.ask()["id"]
    first = bandit.tell(one, 1, add=True, key="more")
    bandit.refused("/tell", {"id": one, "reward": 5, "add": True}, 409, "key_reused", key="more")
    bandit.refused("/tell", {"id": one, "reward": 1, "amend": True}, 409, "key_reused", key="more")
    assert bandit.tell(one, 1, add=True, key="more") == {**first, "changed": False}
    assert bandit.look_up(one)["reward"] == 1
    assert bandit.tell(one, 5, add=True, key="still-more")["reward"] == 6


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
def test_a_keyed_tell_that_changed_nothing_is_remembered(own, restarted):
    bandit = own.create("offers")
    one, other = bandit.ask()["id"], bandit.ask()["id"]
    bandit.tell(one, 1)
    said = bandit.tell(one, 1, amend=True, key="again")
    assert said == {"id": one, "status": "rewarded", "reward": 1, "changed": False}
    bandit.tell(one, 2, amend=True)
    with contextlib.ExitStack() as stack:
        if restarted:
            own.stop()
            bandit = stack.enter_context(own.restarted()).bandit("offers")
        assert bandit.tell(one, 1, amend=True, key="again") == said
        assert bandit.look_up(one)["reward"] == 2
        bandit.refused("/tell", {"id": other, "reward": 1, "amend": True}, 409, "key_reused", key="again")
        bandit.refused("/tell", {"id": one, "reward": 3, "amend": True}, 409, "key_reused", key="again")
        assert (bandit.look_up(one)["reward"], bandit.look_up(other)["status"]) == (2, "open")


# A window ends by the store's clock.


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
def test_a_server_whose_clock_is_ahead_times_out_nobody_elses_decisions(place):
    with Server(place, ahead=7_200) as ahead:
        with Service(place) as service:
            long = service.create("long", reward="bernoulli", window="1 h", default=0)
            short = service.create("short", reward="bernoulli", window="2 s", default=0)
            ids = [long.ask()["id"] for _ in range(5)]
            ended = short.ask()["id"]
        long, short = ahead.bandit("long"), ahead.bandit("short")
        until(
            lambda: short.look_up(ended)["status"] == "timed out", seconds=30
        )  # so the other server has looked at all
        mine = long.ask()["id"]
        assert [long.look_up(one)["status"] for one in (*ids, mine)] == ["open"] * 6
        assert long.detail()["rewards"] == 0
        assert long.tell(ids[0], 1)["changed"] is True
        assert "TimedOut" not in long.kinds()


def test_a_decision_of_a_clock_that_was_ahead_withholds_nothing(tmp_path):
    place = tmp_path / "own.db"
    with Server(place, ahead=7_200) as ahead:
        bandit = ahead.create("offers", reward="bernoulli", window="2 s", default=0)
        first = bandit.ask()["id"]
        ahead.kill()
    with Service(place) as service:
        bandit = service.bandit("offers")
        later = [bandit.ask()["id"] for _ in range(3)]
        until(lambda: all(bandit.look_up(one)["status"] == "timed out" for one in later), seconds=30)
        assert [bandit.look_up(one)["reward"] for one in later] == [0, 0, 0]
        assert bandit.look_up(first)["status"] in ("open", "timed out")


def test_a_window_that_was_made_shorter_does_not_wait_for_a_longer_one(service):
    bandit = service.create(reward="bernoulli", window="1 h", default=0)
    first = bandit.ask()["id"]
    bandit.patch(window="1 s")
    later = bandit.ask()["id"]
    until(lambda: bandit.look_up(later)["status"] == "timed out", seconds=30)
    assert bandit.look_up(first)["status"] == "open"


# Sockets, files and memory.


def test_a_client_that_has_said_all_gets_its_answer(server):
    bandit = server.create("half-closed")
    path = f"/v1/bandits/{bandit.name}/ask"
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for sent in (health, post(path, {"context": {"segment": "new"}})):
        assert talk(server.port, sent).startswith(b"HTTP/1.1 200")
        assert talk(server.port, sent, half_close=True).startswith(b"HTTP/1.1 200")
    assert bandit.detail()["decisions"] == 2


def test_a_small_file_of_millions_of_rows_is_refused(server, tmp_path):
    rows = 20_000_000
    bandit = server.create("bomb", {"offer": ["a", "b"], "channel": ["mail", "sms"]}, context=())
    zeros = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), rows), ["a"])
    table = pa.table({"offer": zeros, "click": pa.repeat(pa.scalar(1, pa.int8()), rows)})
    file = tmp_path / "bomb.parquet"
    pq.write_table(table, file, row_group_size=rows, compression="zstd", write_statistics=False)
    del table, zeros
    content = file.read_bytes()
    assert len(content) < 200_000
    before = server.memory()
    fixed = quote(json.dumps({"channel": "sms"}))
    answer = server.http.post(
        f"/v1/bandits/bomb/import?reward=click&fixed={fixed}", content=content, timeout=4 * PATIENCE
    )
    assert answer.status_code in (413, 422), answer.text
    message = answer.json()["error"]["message"]
    assert "rows" in message
    assert re.search(r"20[ ,_]?000[ ,_]?000", message), message  # what was given
    assert len(re.findall(r"\d[\d,_]*", message)) >= 2, message  # and what is allowed
    assert server.memory("VmHWM") - before < 400e6
    assert server.memory() - before < 200e6
    assert bandit.detail()["rewards"] == 0


def test_connections_on_which_nothing_comes_are_closed(tmp_path):
    with Server(tmp_path / "own.db", idle_seconds=1) as server, contextlib.ExitStack() as stack:
        said = [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHos"]
        connections = []
        for sent in said * 5:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            connection.sendall(sent)
            connections.append(connection)
        for connection in connections:
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(65_536):
                    pass  # until the server closes it; else this times out
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_nobody_else_on_the_machine_can_read_what_is_kept(tmp_path):
    place, copied = tmp_path / "own.db", tmp_path / "copy.db"
    with Service(place) as service:
        service.create("offers").ask()
        backup = command("backup", copied, "--store", place)
        assert backup.code == 0, backup.words
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    modes |= {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert {"own.db", "copy.db"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    restored = tmp_path / "restored.db"
    assert command("restore", copied, "--store", restored).code == 0
    assert stat.S_IMODE(restored.stat().st_mode) == 0o600
