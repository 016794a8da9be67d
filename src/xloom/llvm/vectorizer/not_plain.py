"""What is left to LLVM."""


class NotPlain(Exception):
    """A loop that LLVM had better look at itself."""
