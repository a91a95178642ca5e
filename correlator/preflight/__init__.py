"""What would fail, said before the launch: :func:`check` for its findings, :func:`examine` for the full report.

Scripts, launch commands and configurations are read, never run. Rules are data (``data/rules``), each with its source.
"""

from correlator.preflight.check import check, examine
from correlator.preflight.model import Finding, Report

__all__ = ["Finding", "Report", "check", "examine"]
