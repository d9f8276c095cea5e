"""What keeps an explanation from being made: a sentence for the user, and exit status 2."""


class InputError(Exception):
    """The cluster or the files cannot be read, or lack what is needed."""
