"""The report of a period, for people who never open the page: one computation for library, command and service.

``gathered.py`` collects what there is to say, ``charts.py`` draws it as SVG, ``sections.py`` puts it into words, and
``since.py`` reads when the period began.
"""

from tensorbandits.bandit.reporting.gathered import Change, Gathered, gather
from tensorbandits.bandit.reporting.sections import document, form_of, write
from tensorbandits.bandit.reporting.since import began

__all__ = ["Change", "Gathered", "began", "document", "form_of", "gather", "write"]
