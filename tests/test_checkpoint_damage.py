"""Whole checkpoints, most of them written by the real libraries, are accepted; with any one shard damaged, refused."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from correlator.checkpoints import Checkpoint, scan
from correlator.checkpoints.resume import judge
from correlator.checkpoints.said import LogSide

FIXTURES = Path(__file__).parents[1] / "fixtures" / "checkpoints"
SAVED = 1_800_000_000

NOT_READ_ON_RESUMING = re.compile(
    # descriptions of the model beside the weights
    r"config\.json|generation_config\.json"
    # the configuration, for who wants to build the model from it
    r"|context/.*"
    # what each Orbax process wrote before the databases were merged, where the merged one does not refer to it
    r"|state/(ocdbt\.process_0/(manifest\.ocdbt|d/.*)|array_metadatas/.*)"
)
ONLY_A_LIMIT = re.compile(r"rng_state_\d+\.pth|random_states_\d+\.pkl|train/rank[1-9]\d*\.pt")
"""Without such a file a rank resumes with other random numbers; a damaged one does not load."""

PRESENCE_COUNTS = "commit_success.txt"
"""Of this mark only the presence counts."""

NO_CHECKSUM = re.compile(r"[\w.]*weight/\d+\.\d+")
"""Raw numbers without head or checksum: zeros in full length are numbers like any other."""


def newest(root: Path, *, deep: bool = False) -> Checkpoint:
    return scan(root, deep=deep).checkpoints[0]


def names() -> list[str]:
    return sorted(folder.name for folder in FIXTURES.iterdir())


def shards() -> list[tuple[str, str]]:
    """(fixture, file of its newest checkpoint) for every file without which it cannot be used."""
    found = []
    for name in names():
        one = newest(FIXTURES / name)
        place = FIXTURES / name / one.path
        if place.is_file():
            files = [place]
        elif "{rank}" in one.path:  # loose files
            files = list((FIXTURES / name).glob(one.path.replace("{rank}", "*")))
        else:
            files = [f for f in place.rglob("*") if f.is_file()]
        for file in sorted(files):
            inside = "" if place not in file.parents else file.relative_to(place).as_posix()
            if not NOT_READ_ON_RESUMING.fullmatch(inside):
                found.append((name, file.relative_to(FIXTURES / name).as_posix()))
    return found


SHARDS = shards()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def halve(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def blank(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def copy(name: str, folder: Path) -> Path:
    root = Path(shutil.copytree(FIXTURES / name, folder / name, symlinks=True))
    return same_time(root)


def same_time(root: Path) -> Path:
    for file in root.rglob("*"):
        os.utime(file, (SAVED, SAVED), follow_symlinks=False)
    return root


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", names())
def test_whole_ones_are_accepted(name: str, deep: bool) -> None:
    inventory = scan(FIXTURES / name, deep=deep)
    assert all(one.complete for one in inventory.checkpoints)
    assert judge(inventory, LogSide()).status == "safe"


@pytest.mark.parametrize("damage", [Path.unlink, empty, halve, blank])
@pytest.mark.parametrize(("name", "shard"), SHARDS, ids=[f"{name}-{shard}" for name, shard in SHARDS])
def test_any_damaged_shard_is_refused(name: str, shard: str, damage: Callable[[Path], None], tmp_path: Path) -> None:
    root = copy(name, tmp_path)
    before = newest(root)
    damage(root / shard)
    same_time(root)
    part = shard.removeprefix(f"{before.path}/")
    after = [one for one in scan(root).checkpoints if one.iteration == before.iteration]
    if damage is Path.unlink and ONLY_A_LIMIT.fullmatch(part):
        assert after[0].complete is not False
        return
    if (damage is halve and part.endswith(PRESENCE_COUNTS)) or (damage is blank and NO_CHECKSUM.fullmatch(part)):
        return
    # Of the loose files of several ranks, one that is left has another path.
    assert not any(one.complete for one in after if one.path == before.path or "{rank}" in before.path)
    answer = judge(scan(root), LogSide())
    assert answer.path != str(root / before.path) or answer.status != "safe"


def stored_tensor(data: bytes) -> int | None:
    """Where the first storage of the first torch file in these bytes begins; a ``.distcp`` has many such files."""
    named = re.search(rb"PK\x03\x04.{22}(..)(..)[^/]{1,40}/data/0", data, re.DOTALL)
    if named is None:
        return None
    lengths = [int.from_bytes(part, "little") for part in named.groups()]
    return named.start() + 30 + sum(lengths)


TENSORS = [(name, shard) for name, shard in SHARDS if stored_tensor((FIXTURES / name / shard).read_bytes()) is not None]


@pytest.mark.parametrize(("name", "shard"), TENSORS, ids=[f"{name}-{shard}" for name, shard in TENSORS])
def test_a_flipped_bit_in_a_tensor_is_found_by_a_deep_check(name: str, shard: str, tmp_path: Path) -> None:
    root = copy(name, tmp_path)
    before = newest(root)
    data = bytearray((root / shard).read_bytes())
    at = stored_tensor(data)
    assert at is not None
    data[at] ^= 1  # the last bit of a mantissa: a number like any other
    (root / shard).write_bytes(data)
    same_time(root)
    (after,) = (one for one in scan(root, deep=True).checkpoints if one.path == before.path)
    assert after.complete is False
    assert any("does not match its CRC-32" in problem for problem in after.problems)
