"""Typed errors.

CorrelatorError
+-- UsageError          the caller asked for something impossible; exit code 2
|   +-- NothingReadable no file at the given place could be read
+-- SignatureError      a signature file is malformed
"""


class CorrelatorError(Exception):
    """Root of all errors this package raises on purpose."""


class UsageError(CorrelatorError):
    """The request cannot be served as asked; the text is one sentence for the user."""


class NothingReadable(UsageError):
    """Nothing at LOGDIR could be read."""


class SignatureError(CorrelatorError):
    """A signature file is malformed; the text names the file and the field."""
