"""What goes wrong with a user's input, said in one sentence."""


class InputError(ValueError):
    """Input that cannot be used; the message names the place and the way out."""


class TableWarning(UserWarning):
    """Something in a table was treated in a way its owner should know of."""
