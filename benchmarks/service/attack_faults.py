"""What is done to servers, database and clock: one thing after the other, at random."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable

from benchmarks.service import attack_copies
from benchmarks.service.attack_records import Diary
from benchmarks.service.attack_servers import Place

LONGEST = 30.0  # seconds that a server is stopped, or cut from its database, at most
_CLOCKS = (7_200.0, 86_400.0, -7_200.0, -86_400.0, 1.5, -1.5)  # seconds that a clock is ahead
_BACK = "a server that was killed serves again"


class Faults:
    """One thread that does harm, and puts everything right again before it does the next."""

    def __init__(self, diary: Diary, place: Place, root: str, seed: str, longest: float, copies: int) -> None:
        self._diary, self._place, self._root = diary, place, root
        self._rng, self._longest, self._copies = random.Random(seed), min(longest, LONGEST), copies
        self._over = threading.Event()
        self.broken = threading.Event()  # something could not be put right: there is no use in going on

    def work(self, over: threading.Event) -> None:
        """Do harm until it is over, which cuts short what is just being done."""
        self._over = over
        kinds: list[Callable[[], None]] = [self.kill, self.kill, self.stop, self.stop, self.clock]
        if self._place.kind == "postgres":
            kinds += [self.stop, self.pause, self.pause, self.cut, self.slow, self.kill_database]
        if self._copies:
            kinds.append(self.copy)
        waiting: list[Callable[[], None]] = []
        while not over.wait(self._rng.uniform(0.2, min(3.0, self._longest))) and not self.broken.is_set():
            if not waiting:  # each of them, before the next round
                waiting = self._rng.sample(kinds, len(kinds))
            waiting.pop()()

    def _some(self, first: int = 0) -> int:
        return self._rng.randrange(first, len(self._place.servers))

    def _count(self, what: str) -> None:
        self._diary.faults[what] += 1

    def _busy(self, replica: int) -> None:
        """Wait, for a second at most, until a server is at work: then harm is done in the middle of something."""
        end = time.monotonic() + 1
        while not self._diary.flying[replica] and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(self._rng.uniform(0, 0.01))

    def kill(self) -> None:
        """Kill a server, and start it again."""
        at = self._some()
        server, trouble = self._place.servers[at], self._diary.trouble
        self._count("server killed")
        self._busy(at)
        span = trouble.begin("killed", [at])
        server.end(signal.SIGKILL)
        time.sleep(self._rng.uniform(0, 1))
        server.start()
        if not server.wait():
            self._diary.findings.add(_BACK, f"server {at} is not ready again; it wrote: {server.words()}")
            self.broken.set()
        trouble.end(span)

    def stop(self) -> None:
        """Stop a server where it stands, and let it go on later; never the first, which some clients rely on.

        On SQLite a process that is stopped may hold the lock of the file, which nobody can take from it.
        """
        if len(self._place.servers) < 2:
            return
        at, trouble = self._some(first=1), self._diary.trouble
        self._count("server stopped")
        self._busy(at)
        own = trouble.begin("stopped", [at])
        shared = trouble.begin("lock held", None) if self._place.kind == "sqlite" else None
        self._place.servers[at].send_signal(signal.SIGSTOP)
        self._over.wait(self._rng.uniform(0.2, 1) * self._longest)
        self._place.servers[at].send_signal(signal.SIGCONT)
        trouble.end(own)
        if shared is not None:
            trouble.end(shared)

    def pause(self) -> None:
        """Let nothing pass between a server and PostgreSQL for a while, with all connections open."""
        at = self._some(first=min(1, len(self._place.servers) - 1))
        self._count("database paused for one")
        self._busy(at)
        span = self._diary.trouble.begin("database paused", [at])
        self._place.proxies[at].pause()
        self._over.wait(self._rng.uniform(0.2, 1) * self._longest)
        self._place.proxies[at].resume()
        self._diary.trouble.end(span)

    def cut(self) -> None:
        """Close all connections of a server to PostgreSQL."""
        at = self._some()
        self._count("database cut from one")
        span = self._diary.trouble.begin("database cut", [at])
        self._place.proxies[at].cut()
        self._diary.trouble.end(span)

    def slow(self) -> None:
        """Let everything between a server and PostgreSQL take longer for a while; that excuses no failure."""
        at = self._some()
        self._count("database slowed for one")
        self._place.proxies[at].delay = 0.05
        self._over.wait(self._rng.uniform(0.1, 0.5) * self._longest)
        self._place.proxies[at].resume()

    def kill_database(self) -> None:
        """Kill PostgreSQL, and start it again."""
        self._count("database killed")
        span = self._diary.trouble.begin("database killed", None)
        self._place.postgres.kill()
        time.sleep(self._rng.uniform(0, 1))
        self._place.postgres.start()
        self._diary.trouble.end(span)

    def clock(self) -> None:
        """Set the clock of a server wrong for a while; that excuses no failure."""
        at = self._some()
        self._count("clock wrong")
        span = [at, time.monotonic(), float("inf")]
        self._diary.trouble.wrong_clocks.append(span)
        self._place.servers[at].set_clock(self._rng.choice(_CLOCKS))
        self._over.wait(self._rng.uniform(0.2, 0.5) * self._longest)
        self._place.servers[at].set_clock(0)
        time.sleep(0.1)
        span[2] = time.monotonic()

    def copy(self) -> None:
        """Serve a damaged copy of the store by another server."""
        if self._copies > 0:
            self._copies -= 1
            self._count("damaged copy served")
            attack_copies.attack(self._diary, self._place, self._root, self._rng)
