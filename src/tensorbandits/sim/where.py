"""Where work runs, as one value: made where a user says it, and handed on whole."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal, Self, get_args

BackendName = Literal["local", "dask", "ray"]


@dataclass(frozen=True)
class Where:
    """How many runs at the same time, and on what: processes of this machine, or the workers of a cluster.

    ``n_jobs`` is a number, -1 for every core, or ``None``: one here, every worker of a cluster. ``address`` is that of
    the Dask scheduler or the Ray head; without one the cluster is that which this process is connected to, or else one
    started here for as long as it is needed.

    >>> Where(2), Where(backend="dask", address="tcp://10.0.0.1:8786").address
    (Where(n_jobs=2, backend='local', address=None), 'tcp://10.0.0.1:8786')
    """

    n_jobs: int | None = None
    backend: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        names = get_args(BackendName)
        if self.backend not in names:
            raise ValueError(f"backend is {self.backend!r}; allowed are {', '.join(map(repr, names))}")
        if self.address is not None and not isinstance(self.address, str):
            raise TypeError(f"address is {self.address!r}; give a string, for example 'tcp://10.0.0.1:8786', or None")
        if self.address is not None and self.backend == "local":
            raise ValueError(
                f"address is {self.address!r}, but the backend is 'local', which has none; name the backend, 'dask' or "
                "'ray', or leave out the address"
            )
        if self.n_jobs is None:
            return
        if isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, Integral) or self.n_jobs == 0:
            raise ValueError(
                f"n_jobs is {self.n_jobs!r}; give a number of processes of at least 1, or -1 for every core"
            )
        object.__setattr__(self, "n_jobs", int(self.n_jobs))

    @classmethod
    def chosen(cls, where: Self | None, n_jobs: int | None, backend: str, address: str | None) -> Self:
        """Return what a caller chose: the one value, or the three that make it.

        >>> Where.chosen(None, 2, "local", None)
        Where(n_jobs=2, backend='local', address=None)
        """
        made = cls(n_jobs, backend, address)
        if where is None:
            return made
        if not isinstance(where, cls):
            raise TypeError(f"where is {where!r}; give a Where, for example Where(n_jobs=2)")
        if made not in (cls(), where):
            raise ValueError(f"where is {where!r}, and n_jobs, backend or address is given too; give one or the other")
        return where

    @property
    def most(self) -> int | None:
        """The most runs at the same time, or ``None`` where nothing but the workers limits them."""
        return None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs
