"""Prefix layers of log lines: ``peel`` takes them off one line, ``file_context`` says what they mean in one file."""

from correlator.envelopes.peel import peel
from correlator.envelopes.peeled import FileContext, Peeled

__all__ = ["FileContext", "Peeled", "peel"]
