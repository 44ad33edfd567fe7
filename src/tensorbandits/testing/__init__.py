"""The conformance suite: what every policy must do, to be run over one of your own.

``run(Case(MyPolicy))`` runs all checks and says which failed; with pytest, parametrise over :data:`checks` and call
``check(case)``. Nothing is timed.
"""

from tensorbandits.testing.case import Case, Skipped
from tensorbandits.testing.suite import Report, checks, run

__all__ = ["Case", "Report", "Skipped", "checks", "run"]
