"""A session of Spark for tests, started where it can be; tests that need it say so when they are skipped."""

import functools
import shutil
import warnings
from typing import Any

import pytest

from tests.lake.needs import missing


@functools.cache
def session() -> Any:
    """Return the session of this process, which has one thread and ends with it."""
    if shutil.which("java") is None:
        missing("Java is not installed (Debian: apt-get install openjdk-17-jre-headless); Spark was not tested")
    try:
        import pyspark  # noqa: F401
    except ImportError:
        missing("pyspark is not installed (pip install 'tensorbandits[spark]'); Spark was not tested")
    from tensorbandits.lake.spark import local_session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = local_session(1)
        made.sparkContext.setLogLevel("ERROR")
        made.conf.set("spark.sql.shuffle.partitions", "1")
    return made


def frame(table: Any) -> Any:
    """Return a table of pyarrow as a frame of Spark."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session().createDataFrame(table)


@pytest.fixture(scope="session")
def spark() -> Any:
    """The session, shared by all tests of this process."""
    return session()
