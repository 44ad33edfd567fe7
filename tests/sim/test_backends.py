"""The same comparison on one process, on two, and on real Dask and Ray clusters gives the same files, byte for byte."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.sim import backends
from tensorbandits.sim.jobs import Job, one_thread
from tensorbandits.sim.plan import software
from tensorbandits.sim.where import Where

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'tensorbandits[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'tensorbandits[dask]'")
ray = pytest.importorskip("ray", reason="needs Ray: pip install 'tensorbandits[ray]'")

POLICIES = {
    "thompson": tb.PolicyRecipe("thompson"),
    "ensemble": tb.PolicyRecipe("ensemble", {"rank": 2}),
    "elimination": tb.PolicyRecipe("elimination", {"rank": 2}),
    "epoch-greedy": tb.PolicyRecipe("epoch-greedy", {"paper": True, "rank": 2}),
}
ENVIRONMENTS = {"cube": tb.PaperWorld(p=4), "matrix": tb.PaperWorld(p=6, signal=0.8, order=2)}
# A cluster of Ray and its workers take ten seconds to start: ``make test`` has threads in their place, which are given
# the jobs in the same way. What Dask guards in the same code is left to ``make test-all``.
RAY_LATER = pytest.param("ray", marks=pytest.mark.slow)


def sweep(folder, **where):
    """The runs in the order of their arrival, and the bytes of each Parquet file."""
    seen = []
    tb.compare(POLICIES, ENVIRONMENTS, horizon=150, replications=2, folder=folder, progress=seen.append, **where)
    return seen, {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}


def texts(made):
    return [(name, str(item)) for name, item in made.items()]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    seen, files = sweep(tmp_path_factory.mktemp("one"))
    assert len(seen) == len(files) == 16
    return files


@pytest.fixture(scope="module")
def dask_cluster():
    """A cluster that gives up a job after a second worker died with it, instead of a fourth."""
    allowed = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with allowed, distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ray_cluster():
    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield context
    ray.shutdown()


@pytest.fixture
def threads_for_ray(monkeypatch):
    """Two threads of this process in the place of Ray's workers, and of its back end for joblib."""
    import joblib.pool
    from joblib._parallel_backends import ThreadingBackend
    from ray.util.joblib import ray_backend

    class Threads(ThreadingBackend):
        supports_return_generator = False  # as Ray's says of itself

        def __init__(self, ray_remote_args):
            super().__init__()
            assert ray_remote_args == {"num_cpus": 1}

        def configure(self, *given, **more):
            joblib.pool.PicklingPool.__bases__ = (ray_backend.Pool,)  # as Ray's does
            return super().configure(*given, **more)

    before = joblib.pool.PicklingPool.__bases__
    monkeypatch.setattr(ray_backend, "RayBackend", Threads)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    yield
    assert joblib.pool.PicklingPool.__bases__ == before


def test_two_processes_write_the_same_files(reference, tmp_path):
    assert sweep(tmp_path, n_jobs=2)[1] == reference


def test_dask_at_an_address_writes_the_same_files(reference, dask_cluster, tmp_path):
    seen, files = sweep(tmp_path, backend="dask", address=dask_cluster.scheduler_address)
    assert files == reference
    assert len(seen) == 16
    with pytest.raises(ValueError, match="No global client"):
        distributed.get_client()


def test_dask_uses_the_client_in_use_and_leaves_it_open(reference, dask_cluster, tmp_path):
    with distributed.Client(dask_cluster) as client:
        assert sweep(tmp_path, backend="dask", n_jobs=1)[1] == reference
        assert client.status == "running"


def test_dask_threads_write_the_same_files_and_lift_the_limit_on_threads(reference, tmp_path):
    from threadpoolctl import threadpool_info

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0"
    ) as cluster:
        before = [library["num_threads"] for library in threadpool_info()]
        assert sweep(tmp_path, backend="dask", address=cluster.scheduler_address)[1] == reference
        assert one_thread.inside == 0
        assert [library["num_threads"] for library in threadpool_info()][: len(before)] == before


@pytest.mark.slow
def test_ray_writes_the_same_files_and_leaves_joblib_as_it_was(reference, ray_cluster, tmp_path):
    import joblib.pool

    before = joblib.pool.PicklingPool.__bases__
    seen, files = sweep(tmp_path, backend="ray")
    assert files == reference
    assert len(seen) == 16
    assert joblib.pool.PicklingPool.__bases__ == before
    assert ray.is_initialized()


@pytest.mark.slow  # its processes take long to start; a cluster of Dask at an address is in every run
def test_ray_at_an_address_writes_the_same_files(reference, ray_cluster, tmp_path):
    """From a process of its own: this one is connected already."""
    code = f"""
import tensorbandits as tb
policies = {{name: tb.PolicyRecipe.parse(text) for name, text in {texts(POLICIES)}}}
worlds = {{name: tb.PaperWorld.parse(text) for name, text in {texts(ENVIRONMENTS)}}}
where = dict(backend="ray", address={ray_cluster.address_info["gcs_address"]!r})
tb.compare(policies, worlds, horizon=150, replications=2, folder={str(tmp_path)!r}, **where)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.parquet")} == reference


class Waiting:
    """Worlds of which the first is there only when a file is."""

    def __init__(self, file):
        self.file = file

    def __call__(self, seed):
        end = time.monotonic() + 300.0
        while seed == 0 and not self.file.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return tb.TensorEnvironment(np.eye(2), seed=seed)


class Deadly:
    def __call__(self, seed):
        os._exit(3)


def jobs(make, count=4):
    return [Job("world", "ucb", i, make, tb.PolicyRecipe("ucb"), 5) for i in range(count)]


def where(backend, request):
    if backend == "dask":
        return Where(backend="dask", address=request.getfixturevalue("dask_cluster").scheduler_address)
    if backend != "local":
        request.getfixturevalue("ray_cluster" if backend == "ray" else "threads_for_ray")
    return Where(2, "local" if backend == "local" else "ray")


@pytest.mark.parametrize("backend", ["local", "dask", "threads for ray", RAY_LATER])
def test_each_result_comes_as_it_is_ready(backend, request, tmp_path):
    """The first job waits for a file that is written when another job's result has come."""
    file, order = tmp_path / "one came", []
    for run in backends.run_jobs(jobs(Waiting(file)), where(backend, request)):
        order.append(run.replication)
        file.touch()
    assert order[0] > 0
    assert sorted(order) == [0, 1, 2, 3]


class Listening:
    """Worlds that write down which signals do not reach the process that makes them."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, seed):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        (self.folder / str(seed)).write_text(f"{os.getppid()} {sorted(blocked)}")
        return tb.TensorEnvironment(np.eye(2), seed=seed)


def test_workers_hear_no_signal_that_ends_a_program(tmp_path):
    """Blocked before they start, as a signal may come while they do; this process hears them again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert not before & {signal.SIGINT, signal.SIGTERM}
    assert len(list(backends.run_jobs(jobs(Listening(tmp_path)), Where(2)))) == 4
    said = {path.read_text() for path in tmp_path.iterdir()}
    assert said == {f"{os.getpid()} {sorted(before | {signal.SIGINT, signal.SIGTERM})}"}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize("backend", ["dask", "threads for ray", RAY_LATER])
def test_an_error_on_a_cluster_names_the_job(backend, request):
    wrong = Job("world", "wrong", 0, tb.PaperWorld(p=3), lambda seed: tb.VectorizedUCB((2, 2)), 5)
    with pytest.raises(ValueError, match="same shape") as caught:
        list(backends.run_jobs([wrong] * 2, where(backend, request)))
    assert any("'wrong'" in note for note in caught.value.__notes__)
    assert any("same Python and packages" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("backend", ["dask", RAY_LATER])
def test_other_software_on_a_worker_is_refused(backend, request, monkeypatch):
    monkeypatch.setattr(backends, "software", lambda: software() | {"numpy": "1.0"})
    with pytest.raises(RuntimeError, match=r"numpy .* instead of 1\.0.*install the same"):
        list(backends.run_jobs(jobs(tb.PaperWorld(p=2)), where(backend, request)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets that Dask lost with it
@pytest.mark.parametrize("backend", ["local", "dask", RAY_LATER])
def test_the_death_of_a_worker_is_an_error_and_no_hang(backend, request):
    """Dask tries again on other workers, as often as the cluster allows."""
    with pytest.raises(Exception, match=r"died|terminated|lost a job|KilledWorker"):
        list(backends.run_jobs(jobs(Deadly(), 2), where(backend, request)))


def test_an_address_where_nobody_answers_is_named(monkeypatch):
    monkeypatch.setattr(backends, "_PATIENCE", 1)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        list(backends.run_jobs(jobs(tb.PaperWorld(p=2)), Where(backend="dask", address="tcp://127.0.0.1:9")))


def test_a_second_ray_cluster_is_refused(monkeypatch):
    """Told of a cluster that it need not reach; the same beside a real one is below."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(ValueError, match=r"already connected.*ray\.shutdown"):
        list(backends.run_jobs(jobs(tb.PaperWorld(p=2)), Where(backend="ray", address="10.0.0.1:6379")))


@pytest.mark.slow
def test_a_second_ray_cluster_is_refused_beside_a_real_one(ray_cluster):
    with pytest.raises(ValueError, match=r"already connected.*ray\.shutdown"):
        list(backends.run_jobs(jobs(tb.PaperWorld(p=2)), Where(backend="ray", address="10.0.0.1:6379")))


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_missing_package_is_named_with_its_extra(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed" if backend == "dask" else "ray", None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'tensorbandits\[{backend}\]'"):
        list(backends.run_jobs(jobs(tb.PaperWorld(p=2)), Where(backend=backend)))


def test_a_wrong_backend_or_an_address_without_one_is_refused():
    with pytest.raises(ValueError, match="'spark'; allowed are 'local', 'dask', 'ray'"):
        tb.compare(POLICIES, ENVIRONMENTS, horizon=5, backend="spark")
    with pytest.raises(ValueError, match="the backend is 'local'"):
        tb.compare(POLICIES, ENVIRONMENTS, horizon=5, address="tcp://127.0.0.1:8786")


def test_threads_are_limited_until_the_last_job_leaves():
    """Whichever thread came first or goes last."""
    import scipy.linalg  # noqa: F401  (so that nothing is loaded in between)
    from threadpoolctl import threadpool_info

    def threads():
        return [library["num_threads"] for library in threadpool_info()]

    before = threads()
    entered, leave = [threading.Event() for _ in range(3)], [threading.Event() for _ in range(3)]

    def job(i):
        with one_thread():
            entered[i].set()
            leave[i].wait(10)

    workers = [threading.Thread(target=job, args=(i,)) for i in range(3)]
    for i, worker in enumerate(workers):
        worker.start()
        entered[i].wait(10)
        assert set(threads()) == {1}
    for i in (1, 0):
        leave[i].set()
        workers[i].join()
        assert set(threads()) == {1}
    leave[2].set()
    workers[2].join()
    assert threads() == before
    assert one_thread.inside == 0


def test_leaving_early_stops_the_workers_without_a_warning(tmp_path):
    def slow(seed):
        (tmp_path / str(seed)).touch()
        time.sleep(0.05)
        return tb.PaperWorld(p=2)(seed)

    stream = backends.run_jobs(jobs(slow, 40), Where(2))
    next(stream)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stream.close()
    assert not caught
    started = len(list(tmp_path.iterdir()))
    time.sleep(0.5)
    assert started == len(list(tmp_path.iterdir())) < 40
