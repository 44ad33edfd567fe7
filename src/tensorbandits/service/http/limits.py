"""Rate limits: for each caller a bucket of tokens that refills; so many callers are remembered at most."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from time import monotonic


class Buckets:
    """A bucket of tokens for each caller: ``rate`` flow in each second, up to ``burst``. A rate of 0 is no limit.

    >>> buckets = Buckets(rate=1, burst=2, clock=lambda: 100.0)
    >>> buckets.take("me"), buckets.take("me"), buckets.take("me"), buckets.take("you")
    (0.0, 0.0, 1.0, 0.0)
    """

    def __init__(
        self, rate: float, burst: float, *, most: int = 20_000, clock: Callable[[], float] = monotonic
    ) -> None:
        self.rate, self.burst, self.most, self._clock = rate, max(burst, 1.0), most, clock
        self._full: dict[str, float] = {}  # when the bucket of each will be full again: all that is to be known

    def __len__(self) -> int:
        return len(self._full)

    def take(self, who: str) -> float:
        """Take a token and return 0, or return in how many seconds it would be there and take none."""
        if self.rate <= 0:
            return 0.0
        now = self._clock()
        full = max(self._full.get(who, now), now) + 1.0 / self.rate
        missing = full - now - self.burst / self.rate
        if missing > 1e-9:
            return missing
        if len(self._full) >= self.most and who not in self._full:
            self._forget(now)
        self._full[who] = full
        return 0.0

    def wait(self, who: str) -> float:
        """Return in how many seconds the caller may take one token, without taking it."""
        if self.rate <= 0 or who not in self._full:
            return 0.0
        return max(0.0, self._full[who] - self._clock() + (1.0 - self.burst) / self.rate)

    def _forget(self, now: float) -> None:
        """Drop callers whose buckets are full, which is as if they had never come; else those who came first."""
        self._full = {who: full for who, full in self._full.items() if full > now}
        for who in list(self._full)[: max(0, len(self._full) - self.most + self.most // 10)]:
            del self._full[who]


def network_of(address: str) -> str:
    """Return the address or network that a caller is counted by: of IPv6 the whole /64, which one person has.

    >>> network_of("2001:db8::1") == network_of("2001:db8::2"), network_of("10.0.0.1"), network_of("testclient")
    (True, '10.0.0.1', 'testclient')
    """
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Address(int(parsed) >> 64 << 64))
