"""How long to try: a time-out for each try, pauses between them that double, and a budget for all together."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tensorbandits.base.checks import check_at_least, check_count, check_positive, is_finite
from tensorbandits.client.errors import ServerAwayError, words
from tensorbandits.client.messages import HttpAnswer, HttpRequest, Lost, Transport

_REPAIRED = "quarantined"  # the code of a bandit that waits for somebody: trying again is no use
BUSY = (429, 502, 503, 504)  # the service, or a proxy in front of it, says: later
_LEAST = 0.01  # seconds of a try, should a pause have taken longer than it was to
_FIRST, _LONGEST = 0.1, 5.0  # seconds to pause after the first try, and at most


class Retries:
    """Tries a request until it is answered, or until the time or the tries are used up.

    Parameters
    ----------
    timeout : seconds that one try may take to connect, and then to bring anything of its answer.
    retries : further tries, at most.
    budget : seconds for all tries and the pauses between them.
    rest : seconds after which a service that was away is tried again, by calls that can do without.
    clock, chance : the time in seconds, and a number from 0 to below 1.

    >>> retries = Retries(timeout=5, retries=3, budget=15, rest=1, chance=lambda: 0.0)
    >>> [retries.pause(number) for number in range(4)], retries.pause(0, HttpAnswer(503, {"retry-after": "2"}, b""))
    ([0.05, 0.1, 0.2, 0.4], 2.05)
    """

    def __init__(
        self,
        timeout: float,
        retries: int,
        budget: float,
        rest: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.timeout = check_positive(timeout, "timeout")
        self.retries = check_count(retries, "retries", 0)
        self.budget = check_positive(budget, "budget")
        self.rest = check_at_least(rest, "rest")
        self._clock, self._chance = clock, chance
        self._until = -float("inf")  # the end of the rest

    @property
    def resting(self) -> bool:
        """Whether the service was away just now, so that it is not worth while to try."""
        return self._clock() < self._until

    def pause(self, number: int, answer: HttpAnswer | None = None) -> float:
        """Return how long to pause after a try, of which the first has number 0.

        Pauses double, and chance spreads the clients that were turned away together. The service may ask for more.
        """
        pause = min(_FIRST * 2.0**number, _LONGEST) * (1.0 + self._chance()) / 2.0
        return pause + _asked(answer)

    async def answer(self, transport: Transport, request: HttpRequest, *, once: bool = False) -> HttpAnswer:
        """Send a request, again while there is hope, and return its answer."""
        started = self._clock()
        reached, last, number = False, "", 0
        while True:
            left = started + self.budget - self._clock()
            answer: HttpAnswer | None = None
            try:
                answer = await transport.send(request, min(self.timeout, max(left, _LEAST)))
            except Lost as lost:
                reached, last = reached or lost.reached, str(lost)
            if answer is not None:
                if answer.status not in BUSY:
                    self._until = -float("inf")
                    return answer._replace(again=reached)
                code, last, _ = words(answer)
                reached, once = True, once or code == _REPAIRED
            pause = self.pause(number, answer)
            if once or number >= self.retries or self._clock() + pause >= started + self.budget:
                break
            number += 1
            await transport.sleep(pause)
        self._until = self._clock() + self.rest
        raise self._away(request, last, number + 1, answer, reached)

    def _away(
        self, request: HttpRequest, last: str, tries: int, answer: HttpAnswer | None, reached: bool
    ) -> ServerAwayError:
        times = "one try" if tries == 1 else f"{tries} tries"
        error = ServerAwayError(
            f"{request.method} {request.path} got no answer after {times} within the budget of {self.budget:g} s; the "
            f"last time: {last}. Check that the service runs; give a longer budget, or a fallback to ask and a buffer "
            "to the client, to go on without it",
            reached=reached,
        )
        if answer is not None and (number := words(answer)[2]):
            error.add_note(f"the service knows this request as {number}")
        return error


def _asked(answer: HttpAnswer | None) -> float:
    """The seconds that an answer asks to wait; none where it asks in another way."""
    try:
        seconds = float(answer.headers["retry-after"]) if answer is not None else 0.0
    except (KeyError, ValueError):
        return 0.0
    return max(seconds, 0.0) if is_finite(seconds) else 0.0
