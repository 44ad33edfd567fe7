"""How the tables came to be, one step per file in ``versions``; :mod:`tensorbandits.store.migrate` runs them.

A step that was released is never changed: add one after it, and its number as ``REVISION`` in ``store/schema.py``.
"""
