"""``tensorbandits warm``: compile all kernels ahead."""

import time
from typing import Annotated

import typer

from tensorbandits.cli.common import check_least, one_line_errors


def warm(
    jobs: Annotated[int | None, typer.Option(help="Processes that compile; as many as there are cores.")] = None,
) -> None:
    """Compile all kernels for this machine ahead, so that the first decision does not wait for them.

    What is compiled is kept in the folder NUMBA_CACHE_DIR, or beside the package. Stopped at any time, the same command
    goes on where it was. Run it where an image is built, or before a server is put behind a load balancer.
    """
    with one_line_errors():
        check_least(jobs=(jobs, 1))
        from tensorbandits.model.kernels import compile_ahead, entries, not_kept

        started = time.monotonic()
        compiled = compile_ahead(lambda words: typer.echo(words, err=True), jobs)
        took = time.monotonic() - started
        typer.echo(f"all {len(entries())} kernels are ready; {compiled} were compiled, in {took:.0f} seconds")
        if lost := not_kept():
            raise OSError(
                f"{len(lost)} of them could not be kept, so that each process compiles them again; set "
                "NUMBA_CACHE_DIR to a folder with space that you may write to"
            )
