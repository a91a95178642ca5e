"""The event table of a folder of logs: ``ingest`` and what it gives."""

from correlator.discovery import SkippedFile
from correlator.ingest.merging import FileSummary
from correlator.ingest.parts import as_part, find_parts, read_parts
from correlator.ingest.run import Ingested, ingest
from correlator.ingest.shards import Shard, parse_shard
from correlator.ingest.writers import Writer

__all__ = [
    "FileSummary",
    "Ingested",
    "Shard",
    "SkippedFile",
    "Writer",
    "as_part",
    "find_parts",
    "ingest",
    "parse_shard",
    "read_parts",
]
