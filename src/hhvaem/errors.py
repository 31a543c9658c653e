"""What goes wrong with a user's input, said in one sentence."""

import contextlib
import re
from collections.abc import Callable, Iterator


class InputError(ValueError):
    """Input that cannot be used; the message names the place and the way out."""


class TableWarning(UserWarning):
    """Something in a table was treated in a way its owner should know of."""


@contextlib.contextmanager
def rows_named(number: Callable[[int], int]) -> Iterator[None]:
    """Let errors about some rows of a table name rows of the whole."""
    try:
        yield
    except InputError as error:
        message = re.sub(r"(?<=in row )\d+", lambda row: str(number(int(row[0]))), str(error))
        raise InputError(message) from error
