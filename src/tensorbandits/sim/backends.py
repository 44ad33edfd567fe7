"""Where jobs run: in processes of this machine, or on the workers of a Dask or Ray cluster.

joblib does the work everywhere. Each back end here reaches the workers, says how joblib is to use them, and puts away
what it started.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import threading
import time
import warnings
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from tensorbandits.base.checks import check_installed
from tensorbandits.sim.jobs import Job, Run, run_job
from tensorbandits.sim.plan import software
from tensorbandits.sim.sources import source_digest
from tensorbandits.sim.where import Where

Settings = dict[str, Any]  # of joblib's Parallel

_HERE = Where()
_PATIENCE = 20  # seconds to wait for a cluster to answer


def run_jobs(jobs: Iterable[Job], where: Where = _HERE) -> Generator[Run]:
    """Run jobs, several at a time, and yield each result as it is ready, in any order.

    >>> list(run_jobs([]))
    []
    """
    check_installed("running a comparison", "joblib", "threadpoolctl")
    waiting = list(jobs)
    if not waiting:
        return
    from joblib import Parallel, delayed

    local = where.backend == "local"
    with _BACKENDS[where.backend](where, len(waiting)) as settings:
        parallel = Parallel(**settings, batch_size=1, return_as="generator_unordered")
        run, here = (delayed(_run_near), os.getpid()) if local else (delayed(_run_far), software())
        runs = None
        try:
            with (
                _deaf_children(signal.SIGINT, signal.SIGTERM)
                if local and where.n_jobs not in (None, 1)
                else nullcontext()
            ):
                runs = parallel(run(job, here, source_digest()) for job in waiting)
            for found in runs:  # noqa: UP028  ("yield from" would close the runs first, with a warning)
                yield found
        except Exception as error:
            if not local:
                error.add_note(
                    f"on the {where.backend} cluster: runs that were finished are kept if a folder was given; "
                    "every worker needs the same Python and packages as here, tensorbandits among them"
                )
            raise
        finally:
            if runs is not None:
                _close(runs)


def _run_near(job: Job, parent: int, source: str) -> Run:
    """Run a job in a process of this machine, which is not to outlive the one that asked for it."""
    if os.getppid() == parent:
        _follow(parent)
        if source_digest() != source:
            raise RuntimeError("the code of tensorbandits changed while a comparison ran; run it again")
    return run_job(job)


@functools.cache
def _follow(parent: int) -> None:
    """End this process soon after its parent, even if that was killed and could end nobody."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_far(job: Job, versions: dict[str, str], source: str) -> Run:
    """Run a job where other software could be installed than where the comparison was asked for."""
    here = software()
    other = [f"{name} {here[name]} instead of {version}" for name, version in versions.items() if here[name] != version]
    if other or source_digest() != source:
        what = ", ".join(other) or f"another state of tensorbandits {here['tensorbandits']}"
        raise RuntimeError(
            f"a worker of the cluster has {what}, which can give other numbers; install the same there as here"
        )
    return run_job(job)


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Let the logs of libraries not tell of what we end ourselves, except what is critical."""
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def _deaf_children(*signals: signal.Signals) -> Iterator[None]:
    """Let processes that are started in here not hear the signals that end a program, from their first moment on.

    A terminal sends them to every process of a program, and a worker that is still importing would answer with a
    traceback. The process that asked hears them, a moment later, and ends its workers. What is blocked in a thread is
    blocked in the threads and processes that it starts.
    """
    if not hasattr(signal, "pthread_sigmask"):  # as on Windows
        yield
        return
    for tracker in ("multiprocessing", "joblib.externals.loky.backend"):  # whose start would lift what is blocked
        import_module(f"{tracker}.resource_tracker").ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(runs: Any) -> None:
    """Close a generator of joblib; that not all of it was wanted is no reason to warn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*tasks (have been successfully executed|which were still being)")
        warnings.filterwarnings("ignore", "Failed to kill subprocesses")  # of workers, which have none
        runs.close()


@contextmanager
def _local(where: Where, count: int) -> Iterator[Settings]:
    yield {"n_jobs": where.n_jobs or 1, "backend": "loky"}


# Dask


@contextmanager
def _dask(where: Where, count: int) -> Iterator[Settings]:
    check_installed("the backend 'dask'", "dask", "distributed", extra="dask")
    with _dask_client(where) as client:
        if not client.ncores():
            try:
                client.wait_for_workers(1, timeout=_PATIENCE)
            except TimeoutError:
                raise ConnectionError(
                    f"the Dask cluster at {client.scheduler.address} has no workers; start some with: "
                    f"dask worker {client.scheduler.address}"
                ) from None
        cores = sum(client.ncores().values())
        # Dask itself decides where jobs run. A limit below its cores is kept by handing over no more than that.
        limit = min(where.most or cores, cores)
        handed_over = limit if limit < cores else 2 * cores
        yield {"n_jobs": cores, "backend": _dask_backend()(client=client), "pre_dispatch": handed_over}


@contextmanager
def _dask_client(where: Where) -> Iterator[Any]:
    """A client of the scheduler at the address, else the one in use, else one of a cluster of our own."""
    dask, distributed = import_module("dask"), import_module("distributed")
    address = where.address or dask.config.get("scheduler-address", None)
    if address is None:
        try:
            client = distributed.get_client()
        except ValueError:
            from joblib import cpu_count

            how = {"n_workers": where.most or cpu_count(), "threads_per_worker": 1, "dashboard_address": ":0"}
            with _quiet("distributed", "tornado"):
                with _deaf_children(signal.SIGINT):  # not SIGTERM, by which Dask itself ends its workers
                    cluster = distributed.LocalCluster(**how, silence_logs=logging.CRITICAL)
                with cluster, distributed.Client(cluster, set_as_default=False) as client:
                    yield client
        else:
            yield client
        return
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({error}); give the address that `dask scheduler` prints, "
            "for example 'tcp://10.0.0.1:8786', and see that this machine may reach it"
        ) from error
    with client:
        yield client


class _Lost:
    """Stands for the result of a job that no worker gave, and says why."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _dask_backend() -> Callable[..., Any]:
    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        """joblib's back end, which waits for ever for a job whose worker died: nobody tells it. This one does."""

        def submit(self, func: Any, callback: Any = None) -> Any:
            def tell(future: Any) -> None:
                error = future.exception()
                if error is not None and callback is not None:
                    callback(_Lost(error))

            future = super().submit(func, callback)
            future.add_done_callback(tell)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, (_Lost, CancelledError)):
                error = out.error if isinstance(out, _Lost) else out
                raise RuntimeError(
                    f"the Dask cluster lost a job: {error!r}; see the logs of its scheduler and of its workers, which "
                    "may lack memory"
                ) from error
            return super().retrieve_result_callback(out)

    return Backend


# Ray


@contextmanager
def _ray(where: Where, count: int) -> Iterator[Settings]:
    check_installed("the backend 'ray'", "ray", extra="ray")
    import joblib.pool
    from ray.util.joblib.ray_backend import RayBackend

    with _ray_connection(where) as ray:
        cores = int(ray.cluster_resources().get("CPU", 0))
        limit = max(1, min(where.most or cores, cores))
        before = joblib.pool.PicklingPool.__bases__  # which Ray's back end replaces, for whoever comes next too
        try:
            backend = RayBackend(ray_remote_args={"num_cpus": 1})
            backend.supports_return_generator = True  # it does give each result as it comes, but inherits a False
            yield {"n_jobs": min(limit, max(2, count)), "backend": backend}
        finally:
            joblib.pool.PicklingPool.__bases__ = before


@contextmanager
def _ray_connection(where: Where) -> Iterator[Any]:
    """Ray as it is connected, else connected to the address or to a cluster of our own for as long as needed."""
    import ray

    if ray.is_initialized():
        if where.address not in (None, "auto"):
            raise ValueError(
                f"address is {where.address!r}, but this process is already connected to a Ray cluster; leave out the "
                "address to use that one, or call ray.shutdown() first"
            )
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if where.address is None:
        quiet |= {"include_dashboard": False, "num_cpus": where.most}
    try:
        ray.init(where.address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"no Ray cluster answers at {where.address!r} ({error}); give the address that `ray start --head` prints, "
            "for example '10.0.0.1:6379', or 'ray://10.0.0.1:10001', and see that this machine may reach it"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


_BACKENDS: dict[str, Callable[[Where, int], AbstractContextManager[Settings]]] = {
    "local": _local,
    "dask": _dask,
    "ray": _ray,
}
