"""Fill the holes of a table, predict from what is known, ask for what is worth knowing."""

__version__ = "0.1.0"
