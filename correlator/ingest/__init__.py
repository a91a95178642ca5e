"""The event table of a folder of logs: ``ingest`` and what it gives."""

from correlator.discovery import SkippedFile
from correlator.ingest.merging import FileSummary
from correlator.ingest.run import Ingested, ingest
from correlator.ingest.writers import Writer

__all__ = ["FileSummary", "Ingested", "SkippedFile", "Writer", "ingest"]
