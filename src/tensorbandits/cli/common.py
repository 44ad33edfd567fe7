"""What commands have in common: errors in one line, checks of options, and tables on the screen."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from tensorbandits.base.checks import check_installed
from tensorbandits.cli.stop import Stopped
from tensorbandits.sim.where import Where


@contextmanager
def one_line_errors(out: Path | None = None) -> Iterator[None]:
    """Turn errors that a user can mend into one line and exit code 2; being stopped into one line and its own code.

    Warnings become one line too. ``out`` is the folder that keeps what is finished, if any.
    """

    def say(message: Warning | str, *place: Any, **more: Any) -> None:
        typer.echo(f"warning: {' '.join(str(message).split())}", err=True)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = say  # in one line too
            yield
    except (Stopped, KeyboardInterrupt) as error:
        stop = error if isinstance(error, Stopped) else Stopped()
        kept = "" if out is None else f": what is finished is in {out}; the same command again goes on from there"
        typer.echo(f"{stop.word}{kept}", err=True)
        raise typer.Exit(stop.code) from None
    except (ValueError, TypeError, OSError, ModuleNotFoundError, MemoryError, RuntimeError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, MemoryError):
            words += "; there is not so much memory: give fewer levels or modes"
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", []))
        typer.echo(f"error: {words}{notes}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def naming_options(*options: str, **others: str) -> Iterator[None]:
    """Name options where an error of the library names its arguments; ``others`` are those with another name.

    >>> with naming_options("missing", "min_count", horizon="rounds"):
    ...     raise ValueError("horizon is 1; leave such rows out with missing='drop', or lower min_count")
    Traceback (most recent call last):
    ValueError: --rounds is 1; leave such rows out with --missing drop, or lower --min-count
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        words = str(error)
        for name, option in ({name: name for name in options} | others).items():
            shown, alone = f"--{option.replace('_', '-')}", rf"(?<![\w':,-]){name}"  # not in 'thompson:rank=2'
            words = re.sub(rf"{alone}=(['\"]?)(\w+)\1", rf"{shown} \2", words)  # missing='drop'
            words = re.sub(rf"{alone}=(?!\w)", shown, words)  # top= when ..
            start = "^" if name == option else "(?:^|(?<=: ))"  # a policy's own setting is no option
            words = re.sub(rf"{start}{name}(?= is | are | names | ')", shown, words)
            if "_" in name:  # no word of a sentence
                words = re.sub(rf"{alone}(?![\w'])", shown, words)
        error.args = (words,)
        raise


def check_experiments(command: str) -> None:
    """Refuse to begin a command of the extra ``experiments`` that would lack something half way."""
    needs = ("duckdb", "joblib", "matplotlib", "narwhals", "pyarrow", "rich", "threadpoolctl", "typer")
    check_installed(f"tensorbandits {command}", *needs)


def check_least(**options: tuple[int | None, int]) -> None:
    """Refuse the first option that is below its least value; ``None`` was not given.

    >>> check_least(rounds=(5, 1), seed=(None, 0))
    """
    for option, (value, least) in options.items():
        if value is not None and value < least:
            raise ValueError(f"--{option} is {value}; give {least} or more")


def check_where(jobs: int | None, backend: str = "local", address: str | None = None) -> Where:
    """Return where to run, by the options; no ``--jobs`` is every core, or every worker of a cluster.

    >>> check_where(None).n_jobs, check_where(2).n_jobs
    (-1, 2)
    """
    if jobs == 0:
        raise ValueError("--jobs is 0; give 1 or more, or -1 for every core")
    try:
        return Where(-1 if jobs is None else jobs, backend, address)
    except ValueError as error:
        raise ValueError(f"--{error}") from None


def check_out(out: Path) -> Path:
    """Make the folder that ``--out`` names, and return it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out is {out}, which is or lies in a file; give a folder, or remove the file") from None
    except OSError as error:
        raise ValueError(f"--out is {out}, which cannot be made ({error.strerror}); give another folder") from None
    return out


def print_table(console: Console, title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table whose columns are as narrow as their words allow; those of numbers are set to the right."""
    columns = [[line[at] for line in lines] for at in range(len(header))]
    widths = [max(map(len, (*name.split(), *cells))) for name, cells in zip(header, columns, strict=True)]
    table = Table(title=title)
    for name, cells, width in zip(header, columns, widths, strict=True):
        numbers = all(cell[:1] in "0123456789.–-" for cell in cells)
        table.add_column(name, justify="right" if numbers else "left", width=width)
    for line in lines:
        table.add_row(*line)
    before, console.width = console.width, max(console.width, sum(widths) + 3 * len(widths) + 1)
    console.print(table)  # a line that the terminal breaks is better than one that is cut
    console.width = before
