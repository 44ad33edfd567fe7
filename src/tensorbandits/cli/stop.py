"""How a command stops when it is told to: once, in order, and without a traceback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONCE = 60.0  # seconds in which further signals say the same again, so that what was begun can be put away


class Stopped(BaseException):
    """A signal told the program to stop.

    ``word`` says how in a message, ``code`` is what a shell expects of a program that a signal ended.

    >>> Stopped(signal.SIGTERM).word, Stopped(signal.SIGTERM).code, Stopped().code
    ('terminated', 143, 130)
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.word = "terminated" if number == signal.SIGTERM else "interrupted"
        self.code = 128 + number


@contextmanager
def stopping() -> Iterator[None]:
    """Let a signal raise :class:`Stopped` in what is inside, the whole of a program; then ignore it until the end.

    What the interpreter puts away as it ends would otherwise be interrupted half-way, with a traceback of its own. A
    signal that is ignored already, as for a program in the background of a script, stays so.
    """
    last = float("-inf")

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if monotonic() - last > _ONCE:
            last = monotonic()
            raise Stopped(number)

    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
