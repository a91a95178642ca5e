"""One spelling for PCI addresses: ``dddd:bb:dd``, lower case, without the function digit.

    kernel (NVRM)      PCI:0000:DC:00          kernel (AER, SXid)   0000:dc:00.0
    nvidia-smi         00000000:DC:00.0        NCCL                 dc000  (hex digits of all parts, no leading zeros)

Sources: NVIDIA/nccl ``src/misc/utils.cc`` (busIdToInt64); NVIDIA/open-gpu-kernel-modules (``PCI:%04x:%02x:%02x``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import BlockParser
from parsers._lines import named, one_line

#: Matches any of the spellings with separators; for use inside the regular expressions of parsers.
ADDRESS = r"(?:PCI:)?(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"

_WITH_SEPARATORS = re.compile(r"(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?", re.IGNORECASE)
_DIGITS_ONLY = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)


def normalise_pci(text: str) -> str | None:
    """``dddd:bb:dd`` for any spelling, None where the text is no PCI address.

    >>> normalise_pci("PCI:0000:DC:00"), normalise_pci("00000008:01:00.0"), normalise_pci("2c000")
    ('0000:dc:00', '0008:01:00', '0000:2c:00')
    """
    if match := _WITH_SEPARATORS.fullmatch(text):
        domain, bus, device = int(match[1] or "0", 16), int(match[2], 16), int(match[3], 16)
    elif match := _DIGITS_ONLY.fullmatch(text):
        number = int(match[1], 16)
        domain, bus, device = number >> 20, number >> 12 & 0xFF, number >> 4 & 0xFF
    else:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def with_bus_id(regex: str) -> BlockParser:
    """A one-line block parser for a regular expression that captures ``pci_bus_id`` in any spelling."""

    def build(match: re.Match[str]) -> Mapping[str, object]:
        fields = {name: text for name, text in named(match).items() if text}
        if (address := normalise_pci(str(fields.pop("pci_bus_id", "")))) is not None:
            fields["pci_bus_id"] = address
        return fields

    return one_line(regex, build)
