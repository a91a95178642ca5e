"""A flight-recorder dump as a work unit: read whole, its facts become rows of the event table."""

from __future__ import annotations

from correlator.envelopes.peeled import FileContext
from correlator.flightrecorder.reader import MAX_BYTES, Refused, rank_in_name, read_dump
from correlator.flightrecorder.rows import rows_of, unreadable
from correlator.ingest.rows import Row
from correlator.ingest.work import Unit, UnitResult
from correlator.path_claims import path_claims
from correlator.reading import DamagedArchive, iter_bytes


def read_dump_unit(unit: Unit) -> UnitResult:
    """The rows of one dump, all with the place of the file's first byte; a refused one gives a warning.

    There is no writer: a dump proves that its rank existed, not that what the rank printed was collected.
    """
    file = unit.file
    result = UnitResult(unit.index, unit.position, FileContext())
    found: list[Row] = []
    try:
        data = _all_of(unit)
        result.bytes = len(data)
        dump = read_dump(data, file.name)
        found = list(rows_of(dump))
        if dump.rank is None:
            result.damage = "flight-recorder dump whose rank neither its name nor its content states"
            return result
        if dump.torn:
            result.damage = "flight-recorder dump ends early; its newest calls are missing"
    except (Refused, DamagedArchive) as error:
        result.damage = f"flight-recorder dump {error}; its rank counts as one without a dump"
    except OSError as error:
        result.damage = f"could not be read to its end: {error.strerror or error}"
    rank = rank_in_name(file.name)
    if result.damage and rank is not None and not found:
        found = [unreadable(rank)]
    for number, row in enumerate(found):
        row |= {"file": file.name, "writer": file.name, "line": 1, "byte_offset": 0, "byte_length": result.bytes}
        row |= {"count": 1, "_entry": number, "_unit": unit.index}
        if (attempt := path_claims(file.name).attempt) is not None:
            row["attempt"] = attempt
        result.rows.append(row)
    stamps = [row["timestamp"] for row in result.rows if "timestamp" in row]
    result.first_ns, result.last_ns = min(stamps, default=None), max(stamps, default=None)
    return result


def _all_of(unit: Unit) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in iter_bytes(unit.file.path, unit.file.compression):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise Refused(f"of more than {MAX_BYTES >> 20} MB is not read")
    return b"".join(pieces)
