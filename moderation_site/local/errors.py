"""What can go wrong with the embedded stack."""


class StackError(Exception):
    """The stack cannot go on; the message is one sentence for the person at the terminal."""
