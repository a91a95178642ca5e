"""The checkpoint scan: real files whole, then damaged in every way a dying job or a hostile file can."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.checkpoints import Checkpoint, Inventory, inventory, scan, torch_file
from correlator.checkpoints.disk import File, Folder
from correlator.checkpoints.finite import Tensor, check, tally
from correlator.checkpoints.hints import hint_for
from correlator.checkpoints.layouts import load_layouts
from correlator.checkpoints.model import Findings, Reading
from correlator.checkpoints.names import step_of
from correlator.checkpoints.ocdbt import crc32c
from correlator.checkpoints.parallel import WORKERS
from correlator.checkpoints.pickles import Refused, read_pickle
from correlator.checkpoints.torch_file import read_torch
from correlator.errors import UsageError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "checkpoints"
SAVED = 1_800_000_000
SHARD = "iter_0000010/mp_rank_01_000/model_optim_rng.pt"


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one fixture, to be damaged; all files have one time, whenever they were checked out."""

    def copy(name: str) -> Path:
        root = Path(shutil.copytree(FIXTURES / name, tmp_path / name))
        for file in root.rglob("*"):
            os.utime(file, (SAVED, SAVED))
        return root

    return copy


def one(inventory: Inventory, iteration: int) -> Checkpoint:
    (found,) = (c for c in inventory.checkpoints if c.iteration == iteration)
    return found


def torch_zip(folder: Path, name: str, pickled: bytes, storages: dict[str, bytes] | None = None, **how: Any) -> Path:
    """A file as torch.save writes it, with any pickle inside."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w", **how) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, data in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", data)
    return folder / name


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    os.utime(path, (SAVED, SAVED))


# whole checkpoints, as the real libraries write them


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    ("name", "layout", "iterations", "tracker", "topology"),
    [
        ("megatron_legacy", "megatron-legacy", [20, 10], 20, {"tp": 2, "pp": 2, "dp": 2, "world": 8}),
        ("megatron_dist", "megatron-dist", [20, 10], 20, {"tp": 2, "pp": 1, "dp": 1, "world": 2}),
        ("deepspeed", "deepspeed", [20, 10], "global_step20", {"dp": 2, "world": 2}),
        ("hf_trainer", "hf-trainer", [20, 10], None, {"world": 2}),
        ("lightning", "lightning", [100, 100, 50], None, {}),
        ("dcp", "torchtitan", [30], None, {}),
    ],
)
def test_whole_checkpoints(
    tree: Callable[[str], Path],
    name: str,
    layout: str,
    iterations: list[int],
    tracker: int | str | None,
    topology: dict[str, int],
    deep: bool,
) -> None:
    root = tree(name)
    inventory = scan(root, deep=deep)
    assert [c.iteration for c in inventory.checkpoints] == iterations
    assert {c.layout for c in inventory.checkpoints} == {layout}
    assert all(c.complete for c in inventory.checkpoints)
    assert inventory.tracker == tracker
    for found in inventory.checkpoints:
        assert topology.items() <= found.topology.items()
        place = root / found.path
        files = [place] if place.is_file() else [f for f in place.rglob("*") if f.is_file()]
        assert found.size_bytes == sum(f.stat().st_size for f in files)
        assert found.mtime_ns == SAVED * 10**9
        if (name, found.iteration) != ("megatron_legacy", 20):
            assert found.finite is True
            assert found.problems == ()


def test_all_fixtures_are_found_below_one_root() -> None:
    inventory = scan(FIXTURES)
    assert {c.path.split("/")[0] for c in inventory.checkpoints} == {p.name for p in FIXTURES.iterdir()}


def test_one_checkpoint_as_the_root(tree: Callable[[str], Path]) -> None:
    (found,) = scan(tree("megatron_dist") / "iter_0000010").checkpoints
    assert (found.path, found.iteration, found.complete) == (".", 10, True)


def test_nan_in_one_bfloat16_weight_is_found_and_named() -> None:
    found = one(scan(FIXTURES / "megatron_legacy"), 20)
    assert found.complete is True
    assert found.finite is False
    assert found.problems == (
        "mp_rank_01_000/model_optim_rng.pt: NaN in 1 of 64 values read of model.layers.0.mlp.weight",
    )


def test_tracker_to_a_tainted_checkpoint() -> None:
    assert "NaN" in str(scan(FIXTURES / "megatron_legacy").tracker_problem)


# Megatron legacy


def test_missing_shard_folder(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    shutil.rmtree(root / "iter_0000010/mp_rank_00_001")
    found = one(scan(root), 10)
    assert found.complete is False
    assert found.problems == ("1 of 4 model-parallel shards are missing, first mp_rank_00_001",)


def test_a_whole_pipeline_stage_missing_shows_only_in_the_saved_arguments(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    for name in ("mp_rank_00_001", "mp_rank_01_001"):
        shutil.rmtree(root / "iter_0000010" / name)
    assert "2 of 4 model-parallel shards" in one(scan(root), 10).problems[0]


def test_without_readable_arguments_the_other_iteration_tells(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    foreign = pickle.dumps(Foreign(), protocol=2)
    for shard in root.glob("iter_*/*"):
        torch_zip(shard, "model_optim_rng.pt", foreign)
    for name in ("mp_rank_00_001", "mp_rank_01_001"):
        shutil.rmtree(root / "iter_0000020" / name)
    inventory = scan(root)
    assert one(inventory, 10).complete is True
    assert one(inventory, 20).complete is None
    assert any("that iteration 10 has are missing" in p for p in one(inventory, 20).problems)


class Foreign:
    """A class of a program nobody knows."""


@pytest.mark.parametrize(("length", "complete"), [(0, False), (1, None), (100, False), (3000, False), (5316, False)])
def test_shard_cut_short(tree: Callable[[str], Path], length: int, complete: bool | None) -> None:
    root = tree("megatron_legacy")
    os.truncate(root / SHARD, length)
    assert one(scan(root), 10).complete is complete


def test_shard_without_its_optimizer_file(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    for shard in sorted((root / "iter_0000010").iterdir())[:3]:
        shutil.copy(shard / "model_optim_rng.pt", shard / "distrib_optim.pt")
    assert "mp_rank_01_001/distrib_optim.pt is missing" in one(scan(root), 10).problems


def test_shard_of_another_iteration(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    shutil.copy(root / SHARD.replace("10/", "20/").replace("mp_rank_01_000", "mp_rank_00_000"), root / SHARD)
    found = one(scan(root), 10)
    assert found.complete is False
    assert "was saved at iteration 20" in found.problems[0]


def test_a_flipped_bit_is_found_by_the_deep_check_alone(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    data = (root / SHARD).read_bytes()
    # The last mantissa bits of a weight: a small wrong number, no NaN.
    flip(root / SHARD, data.index(b"data/0") + 150)
    assert one(scan(root), 10).complete is True
    found = one(scan(root, deep=True), 10)
    assert found.complete is False
    assert "CRC-32" in found.problems[0]


def test_absurd_shard_names_make_no_grid(tmp_path: Path) -> None:
    (tmp_path / "iter_0000001/mp_rank_99999_99999").mkdir(parents=True)
    assert one(scan(tmp_path), 1).complete is False


# the tracker


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("10\n", 10, None),
        ("release", "release", "which is not there"),
        ("30", 30, "which is not there"),
        ("", None, "holds no mark"),
        ("10; rm -rf /", None, "holds no mark"),
        ("1" * 5000, None, "holds no mark"),
    ],
)
def test_megatron_tracker(tree: Callable[[str], Path], text: str, value: int | str | None, problem: str | None) -> None:
    root = tree("megatron_dist")
    (root / "latest_checkpointed_iteration.txt").write_text(text)
    inventory = scan(root)
    assert inventory.tracker == value
    assert (inventory.tracker_problem is None) if problem is None else (problem in str(inventory.tracker_problem))


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda mark: mark.symlink_to("/etc/hostname"), lambda mark: mark.symlink_to(mark)]
)
def test_a_mark_that_is_no_file_is_not_taken_for_a_missing_one(
    tree: Callable[[str], Path], make: Callable[[Path], None]
) -> None:
    root = tree("megatron_dist")
    mark = root / "latest_checkpointed_iteration.txt"
    mark.unlink()
    make(mark)
    found = scan(root)
    assert (found.tracker, found.tracker_problem) == (None, f"{mark.name} is no file that can be read")
    assert all(one.complete for one in found.checkpoints)


def test_a_mark_of_absurd_length_is_not_read(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_dist")
    os.truncate(root / "latest_checkpointed_iteration.txt", 1 << 30)
    assert "has 1073741824 bytes, more than are read" in (scan(root).tracker_problem or "")


def test_tracker_to_a_broken_checkpoint(tree: Callable[[str], Path]) -> None:
    root = tree("deepspeed")
    (root / "global_step20/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    inventory = scan(root)
    assert inventory.tracker == "global_step20"
    assert "1 of 2 optimizer state files are missing" in str(inventory.tracker_problem)


def test_two_marks_that_disagree(tree: Callable[[str], Path]) -> None:
    root = tree("deepspeed")
    (root / "latest_checkpointed_iteration.txt").write_text("20")
    assert scan(root).tracker_problem is None
    (root / "latest_checkpointed_iteration.txt").write_text("10")
    assert "disagree: one points to step 20" in str(scan(root).tracker_problem)


# DCP and what is built on it


@pytest.mark.parametrize(
    ("kind", "fixed"),
    [
        ("dp_reshardable", ("tp", "pp")),
        ("fully_sharded_bucket_space", ("tp", "pp")),
        ("fully_sharded_model_space", ()),
        ("fully_reshardable", ()),
    ],
)
def test_the_form_of_the_optimizer_decides_what_reshards(
    tree: Callable[[str], Path], kind: str, fixed: tuple[str, ...]
) -> None:
    root = tree("megatron_dist")
    common = pickle.dumps({"content_metadata": {"distrib_optim_sharding_type": kind}}, 2)
    torch_zip(root / "iter_0000020", "common.pt", common)
    rules = one(scan(root), 20).rescale
    assert rules.fixed == fixed
    assert ("--dist-ckpt-optim-fully-reshardable" in rules.convert) == bool(fixed)


def test_megatron_dist_without_metadata_json_died_before_the_end(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_dist")
    (root / "iter_0000020/metadata.json").unlink()
    assert one(scan(root), 20).problems == ("no metadata.json: the save died between its last two steps",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".metadata", "no .metadata beside 2 shard files"),
        ("__1_0.distcp", "shard file __1_0.distcp is missing"),
        ("common.pt", "common.pt is missing"),
    ],
)
def test_megatron_dist_with_a_file_missing(tree: Callable[[str], Path], name: str, text: str) -> None:
    root = tree("megatron_dist")
    (root / "iter_0000020" / name).unlink()
    found = one(scan(root), 20)
    assert found.complete is False
    assert any(text in problem for problem in found.problems)


@pytest.mark.parametrize("name", ["iter_0000030", "step-40"])
def test_empty_directory(tree: Callable[[str], Path], name: str) -> None:
    root = tree("megatron_dist" if name.startswith("iter") else "dcp")
    (root / name).mkdir()
    inventory = scan(root)
    assert inventory.checkpoints[0].path == name
    assert inventory.checkpoints[0].complete is False


def test_empty_directory_in_a_series_without_a_fixed_name(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    (root / "step-30").rename(root / "epoch_3")
    (root / "epoch_4").mkdir()
    assert [(c.path, c.layout, c.complete) for c in scan(root).checkpoints] == [
        ("epoch_4", "dcp", False),
        ("epoch_3", "dcp", True),
    ]


@pytest.mark.parametrize("change", [-1, 1])
def test_shard_of_another_length(tree: Callable[[str], Path], change: int) -> None:
    root = tree("dcp")
    shard = root / "step-30/__0_0.distcp"
    os.truncate(shard, shard.stat().st_size + change)
    assert one(scan(root), 30).complete is False


def test_shard_of_the_right_length_full_of_zeros(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    shard = root / "step-30/__0_0.distcp"
    shard.write_bytes(bytes(shard.stat().st_size))
    os.utime(shard, (SAVED, SAVED))
    found = one(scan(root), 30)
    assert found.complete is False
    assert "begins with zeros" in found.problems[0]


def test_more_metadata_than_is_read_leaves_the_older_one_open(
    tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "correlator.checkpoints.inventory.Reading", lambda deep, seen: Reading(deep, metadata_left=5000, seen=seen)
    )
    root = tree("megatron_dist")
    assert [c.complete for c in scan(root).checkpoints] == [True, None]
    assert [c.complete for c in scan(root, deep=True).checkpoints] == [True, True]


def test_shards_newer_than_metadata_leave_it_open(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_dist")
    before = (root / "iter_0000020/.metadata").stat().st_mtime
    os.utime(root / "iter_0000020/__1_0.distcp", (before + 1000, before + 1000))
    inventory = scan(root)
    assert one(inventory, 20).complete is None
    assert "overwritten by a later save" in one(inventory, 20).problems[0]
    assert one(inventory, 10).complete is True


def test_times_lost_in_a_copy_are_no_sign(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_dist")
    for shard in root.glob("*/*.distcp"):
        before = (shard.parent / ".metadata").stat().st_mtime
        os.utime(shard, (before + 1000, before + 1000))
    inventory = scan(root)
    assert all(c.complete for c in inventory.checkpoints)
    assert "lost in a copy" in inventory.checkpoints[0].problems[0]


def test_flipped_bit_inside_a_dcp_item(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    shard = root / "step-30/__1_0.distcp"
    flip(shard, shard.read_bytes().index(b"data/0") + 150)
    assert one(scan(root), 30).complete is True
    assert "CRC-32" in one(scan(root, deep=True), 30).problems[0]


def test_integrity_file(tree: Callable[[str], Path]) -> None:
    import hashlib

    root = tree("megatron_dist")
    folder = root / "iter_0000020"
    sums = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("*.distcp")}
    (folder / "integrity.json").write_text(json.dumps({"algorithm": "sha256", "files": sums}))
    assert one(scan(root, deep=True), 20).complete is True
    sums["__0_0.distcp"] = "0" * 64
    (folder / "integrity.json").write_text(json.dumps({"algorithm": "sha256", "files": sums}))
    assert one(scan(root), 20).complete is True
    assert "__0_0.distcp does not match its SHA-256" in one(scan(root, deep=True), 20).problems[0]


def test_zarr_arrays_need_all_their_chunks(tmp_path: Path) -> None:
    array = tmp_path / "iter_0000005/model.weight"
    array.mkdir(parents=True)
    torch_zip(tmp_path / "iter_0000005", "common.pt", pickle.dumps({"iteration": 5}, protocol=2))
    (tmp_path / "iter_0000005/metadata.json").write_text('{"sharded_backend": "zarr"}')
    (array / ".zarray").write_text('{"shape": [5, 2], "chunks": [2, 2]}')
    for chunk in ("0.0", "1.0", "2.0"):
        (array / chunk).write_bytes(bytes(16))
    assert one(scan(tmp_path), 5).complete is True
    (array / "1.0").unlink()
    assert "1 of 3 chunks of model.weight are missing" in one(scan(tmp_path), 5).problems


def test_nemo_marker(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_dist")
    inner = root / "run--val_loss=1.25-step=20-last"
    (inner / "context").mkdir(parents=True)
    (root / "iter_0000020").rename(inner / "weights")
    assert (one(scan(root), 20).layout, one(scan(root), 20).complete) == ("nemo", True)
    (root / f"{inner.name}-unfinished").touch()
    assert one(scan(root), 20).complete is False


def test_olmo_core(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    folder = root / "step50-tmp"
    (root / "step-30").rename(root / "inner")
    (folder / "train").mkdir(parents=True)
    (root / "inner").rename(folder / "model_and_optim")
    shutil.copy(FIXTURES / "hf_trainer/checkpoint-10/rng_state_0.pth", folder / "train/rank0.pt")
    assert one(scan(root), 50).complete is False
    folder.rename(root / "step50")
    assert one(scan(root), 50).problems == ("no .metadata.json, which is written last: the save was not finished",)
    (root / "step50/.metadata.json").write_text("{}")
    assert one(scan(root), 50).complete is True


def test_lightning_directory_needs_meta(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    (root / "step-30").rename(root / "epoch=1-step=30.ckpt")
    found = one(scan(root), 30)
    assert (found.layout, found.complete) == ("lightning", False)
    shutil.copy(FIXTURES / "lightning/epoch=1-step=100.ckpt", root / "epoch=1-step=30.ckpt/meta.pt")
    assert one(scan(root), 100).complete is True


# marks and temporary names of the others


def test_deepspeed_latest_written_before_the_barrier(tree: Callable[[str], Path]) -> None:
    root = tree("deepspeed_zero3")
    for file in (root / "global_step20").glob("zero_pp_rank_1_*"):
        file.unlink()
    assert (root / "latest").read_text() == "global_step20"
    inventory = scan(root)
    assert one(inventory, 20).complete is False
    assert "latest points to global_step20, which cannot be used" in str(inventory.tracker_problem)
    assert one(inventory, 10).complete is True


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("orbax", "20", "20.orbax-checkpoint-tmp"),
        ("olmo_core", "step20", "step20-tmp"),
        ("megatron_core", "iter_0000020/.metadata", "iter_0000020/.metadata.tmp"),
    ],
)
def test_left_over_temporary_names(tree: Callable[[str], Path], name: str, old: str, new: str) -> None:
    root = tree(name)
    (root / old).rename(root / new)
    assert one(scan(root), 20).complete is False


def test_a_dlrover_step_that_was_never_committed(tree: Callable[[str], Path]) -> None:
    root = tree("dlrover")
    (root / "dlrover_latest.txt").write_text("10")
    assert one(scan(root), 20).complete is None
    done = root / "._dlrover_ckpt_stage/20.done"
    done.mkdir(parents=True)
    (done / "0").touch()
    assert "holds 1 done files" in one(scan(root), 20).problems[0]


def test_orbax_processes_that_were_never_merged(tree: Callable[[str], Path]) -> None:
    root = tree("orbax")
    (root / "20/state/manifest.ocdbt").unlink()
    assert any("was never merged" in problem for problem in one(scan(root), 20).problems)


@pytest.mark.parametrize("at", range(0, 110, 7))
def test_a_flipped_bit_in_the_manifest_of_a_database_is_found(tree: Callable[[str], Path], at: int) -> None:
    root = tree("orbax")
    flip(root / "20/state/manifest.ocdbt", at)
    assert one(scan(root), 20).complete is False


def test_the_checksum_of_a_known_text() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def ocdbt_manifest(body: bytes) -> bytes:
    """A manifest of a database with any body, packed with zstd."""
    packed = zstandard.ZstdCompressor().compress(body)
    whole = b"\x0c\xdb\x3a\x2a" + struct.pack("<Q", 18 + len(packed)) + b"\x00\x01" + packed
    return whole + crc32c(whole).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (bytes(80 << 20), "absurd size"),
        (bytes(16) + b"\0\0\0\4\0" + b"\xff" * 9 + b"\1", "absurd number"),
        (bytes(16) + b"\0\0\0\4\0" + b"\xbf\x84\x3d" + b"\x80\x01" * 3_000_000, "ends early"),
        (bytes(16), "ends early"),
    ],
)
def test_a_hostile_manifest_is_refused_with_a_finding(tree: Callable[[str], Path], body: bytes, text: str) -> None:
    root = tree("orbax")
    (root / "20/state/manifest.ocdbt").write_bytes(ocdbt_manifest(body))
    found = one(scan(root), 20)
    assert found.complete is False
    assert any(text in problem for problem in found.problems)


def test_a_torch_dist_save_without_metadata_json_is_not_taken_for_fsdp_dtensor(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_core")
    for name in ("metadata.json", "common.pt"):
        (root / "iter_0000020" / name).unlink()
    found = one(scan(root), 20)
    assert (found.layout, found.complete) == ("megatron-fsdp", False)
    assert "died between its last two steps" in found.problems[0]


# DeepSpeed, Hugging Face, single files


def test_zero_stage_without_optimizer_files(tree: Callable[[str], Path]) -> None:
    root = tree("deepspeed")
    for file in (root / "global_step20").glob("*optim_states.pt"):
        file.unlink()
    assert one(scan(root), 20).problems[0] == "no optimizer states, although ZeRO stage 2 writes them"


@pytest.mark.parametrize(
    ("name", "complete", "text"),
    [
        ("trainer_state.json", False, "written last"),
        ("model-00002-of-00002.safetensors", False, "is missing"),
        ("model.safetensors.index.json", False, "without their index"),
        ("rng_state_0.pth", True, "random-number state of 1 ranks is missing, first of rank 0"),
        ("optimizer.pt", False, "silently start anew"),
        ("scheduler.pt", False, "silently start anew"),
    ],
)
def test_hf_trainer_with_a_file_missing(tree: Callable[[str], Path], name: str, complete: bool, text: str) -> None:
    root = tree("hf_trainer")
    (root / "checkpoint-20" / name).unlink()
    found = one(scan(root), 20)
    assert found.complete is complete
    assert any(text in problem for problem in found.problems)


def test_hf_trainer_with_a_deepspeed_tree(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    shutil.copytree(FIXTURES / "deepspeed/global_step20", root / "checkpoint-20/global_step20")
    assert one(scan(root), 20).complete is True
    (root / "checkpoint-20/global_step20/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    found = one(scan(root), 20)
    assert found.complete is False
    assert found.problems == ("global_step20: 1 of 2 optimizer state files are missing",)


def test_trainer_history_with_a_loss_that_is_no_number(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    state = '{"global_step": 20, "log_history": [{"loss": 2.0, "step": 10}, {"loss": NaN, "step": 20}]}'
    (root / "checkpoint-20/trainer_state.json").write_text(state)
    assert one(scan(root), 20).problems == ("the loss was not finite at step 20, says trainer_state.json",)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:20],
        lambda data: struct.pack("<Q", 1 << 60) + data[8:],
        lambda data: data.replace(b'"F32"', b'"F32]', 1),
        lambda data: data.replace(b"data_offsets", b"data_0ffsets", 1),
    ],
)
def test_damaged_safetensors(tree: Callable[[str], Path], damage: Callable[[bytes], bytes]) -> None:
    root = tree("hf_trainer")
    file = root / "checkpoint-10/model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    assert one(scan(root), 10).complete is False


def test_safetensors_with_nan(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    file = root / "checkpoint-10/model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-4] + struct.pack("<f", float("nan")))
    assert one(scan(root), 10).finite is False


def test_model_and_checkpoints_in_one_output_directory(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    shutil.copy(root / "checkpoint-10/model.safetensors", root / "model.safetensors")
    assert [(c.path, c.layout) for c in scan(root).checkpoints] == [
        ("checkpoint-20", "hf-trainer"),
        ("checkpoint-10", "hf-trainer"),
        ("model.safetensors", "safetensors"),
    ]


def test_accelerate(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    folder = root / "checkpoint-10"
    (folder / "trainer_state.json").unlink()
    (folder / "optimizer.pt").rename(folder / "optimizer.bin")
    folder.rename(root / "checkpoint_3")
    assert one(scan(root), 3).complete is False
    (root / "checkpoint_3/rng_state_0.pth").rename(root / "checkpoint_3/random_states_0.pkl")
    found = one(scan(root), 3)
    assert (found.layout, found.complete) == ("accelerate", True)


@pytest.mark.parametrize("name", ["epoch=1-step=100.ckpt", "old-epoch=1.ckpt"])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_single_file_cut_short(tree: Callable[[str], Path], name: str, share: float) -> None:
    root = tree("lightning")
    os.truncate(root / name, int((root / name).stat().st_size * share))
    (found,) = (c for c in scan(root).checkpoints if c.path == name)
    assert found.complete is False
    assert "cut short" in found.problems[0]


def test_files_of_all_ranks_belong_together(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        shutil.copy(FIXTURES / "hf_trainer/checkpoint-10/optimizer.pt", tmp_path / f"ep0-ba100-rank{rank}.pt")
    (found,) = scan(tmp_path).checkpoints
    assert (found.iteration, found.complete, found.topology) == (100, False, {"world": 4})
    assert found.problems == ("files of 1 of 4 ranks are missing",)


# hostile directories and files


class Evil:
    """Would run a command when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


def test_a_pickle_that_acts_is_named_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch_zip(tmp_path, "step_5.pt", pickle.dumps({"model": Evil()}, protocol=2))
    found = one(scan(tmp_path, deep=True), 5)
    assert found.complete is False
    assert "posix.system" in found.problems[0]
    assert not (tmp_path / "pwned").exists()


def test_a_metadata_file_that_acts(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    (root / "step-30/.metadata").write_bytes(pickle.dumps(Evil()))
    found = one(scan(root), 30)
    assert found.complete is False
    assert ".metadata: loading it with the ordinary unpickler would call posix.system" in found.problems[0]
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "name", ["torch.load", "torch.hub.load", "torch.jit.load", "numpy.testing._private.utils.runstring", "os.system"]
)
def test_names_that_run_what_they_are_given(tmp_path: Path, name: str) -> None:
    module, _, function = name.rpartition(".")
    torch_zip(tmp_path, "step_5.pt", f"c{module}\n{function}\n)R.".encode())
    assert f"would call {name}: do not load it" in one(scan(tmp_path), 5).problems[0]


@pytest.mark.parametrize("pickled", [b"(ilogging\nLogger\n.", b"\x80\x02\x82\x01.", b"\x80\x02q"])
def test_a_pickle_that_torch_does_not_write_is_not_taken_for_whole(tmp_path: Path, pickled: bytes) -> None:
    torch_zip(tmp_path, "step_5.pt", pickled)
    assert one(scan(tmp_path), 5).complete is not True


def test_a_class_of_the_program_is_no_fault(tmp_path: Path) -> None:
    torch_zip(tmp_path, "step_5.pt", pickle.dumps(Foreign(), protocol=2))
    found = one(scan(tmp_path), 5)
    assert found.complete is True
    assert "content not read" in found.problems[0]


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x04r\xff\xff\xff\xff.",  # a memo of four billion places
        b"\x80\x04N" + b"r\xff\xff\xff\xff" + b".",
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f" + b".",  # bytes of 2**63
        b"\x80\x04\x8b\xff\xff\xff\x7f.",  # an integer of 2**31 bytes
        b"\x80\x04}" + b"N" + b"\x86" * 5000 + b".",
        b"\x80\x02(" * 1000,
        b"\x80\x04" + b"]" + b"2a" * 5000 + b".",  # a list inside itself
        b"\x80\x04}N\x94" + b"h\x00\x86" * 50 + b"Ns.",
        b".",
        b"",
    ],
)
def test_hostile_pickles_end_quickly(tmp_path: Path, pickled: bytes) -> None:
    torch_zip(tmp_path, "step_5.pt", pickled)
    assert len(scan(tmp_path, deep=True).checkpoints) == 1


def test_nested_tuples_as_a_key_are_refused() -> None:
    # t = (t, t) forty times: hashing it would take 2**40 steps.
    with pytest.raises(Refused, match="nested tuple"):
        read_pickle(b"\x80\x04}" + b"N" + b"2\x86" * 40 + b"Ns.")


def test_one_list_is_not_made_into_many_dicts() -> None:
    value = b"ccollections\nOrderedDict\n(]\x94(NNe\x85R."
    with pytest.raises(Refused):
        read_pickle(b"\x80\x02" + value)


def test_compressed_entries_are_refused(tmp_path: Path) -> None:
    bomb = {"0": bytes(20_000_000)}
    torch_zip(tmp_path, "step_5.pt", pickle.dumps({}, protocol=2), bomb, compression=zipfile.ZIP_DEFLATED)
    found = one(scan(tmp_path, deep=True), 5)
    assert found.complete is False
    assert "compressed" in found.problems[0]


def test_a_torchscript_program_is_no_checkpoint(tmp_path: Path) -> None:
    path = torch_zip(tmp_path, "step_5.pt", pickle.dumps({}, protocol=2))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/code/m.py", "x = 1\n" * 99, zipfile.ZIP_DEFLATED)
        archive.writestr("archive/constants.pkl", pickle.dumps((), protocol=2))
    found = one(scan(tmp_path), 5)
    assert (found.complete, found.problems) == (None, ("step_5.pt: a TorchScript program, not a checkpoint",))


def test_entry_that_leaves_the_archive(tmp_path: Path) -> None:
    torch_zip(tmp_path, "step_5.pt", pickle.dumps({}, protocol=2), {"../../../escape": b"1"})
    assert "leaves the archive" in one(scan(tmp_path), 5).problems[0]
    assert not (tmp_path.parent / "escape").exists()


def test_metadata_that_points_outside(tree: Callable[[str], Path]) -> None:
    root = tree("dcp")
    described = root / "step-30/.metadata"
    described.write_bytes(described.read_bytes().replace(b"__1_0.distcp", b"../../../etc"))
    found = one(scan(root), 30)
    assert found.complete is False
    assert "shard file ../../../etc is missing" in found.problems


def test_links_out_of_the_root_are_not_followed(tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = tree("megatron_dist")
    outside = tmp_path / "outside"
    outside.mkdir()
    shard = root / "iter_0000020/__1_0.distcp"
    shutil.move(shard, outside / "shard")
    shard.symlink_to(outside / "shard")
    (root / "iter_0000099").symlink_to(outside)
    (root / "loop").symlink_to(root)
    inventory = scan(root)
    assert [c.iteration for c in inventory.checkpoints] == [20, 10]
    assert one(inventory, 20).complete is False
    assert any("link that leaves the directory" in p for p in one(inventory, 20).problems)
    assert inventory.refused == ("iter_0000099 is a link that leaves the directory: not followed",)


def test_links_within_the_root_are_followed_once(tree: Callable[[str], Path]) -> None:
    root = tree("lightning")
    (root / "last.ckpt").symlink_to("epoch=1-step=100.ckpt")
    assert "last.ckpt" not in {c.path for c in scan(root).checkpoints}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_not_opened(tree: Callable[[str], Path]) -> None:
    root = tree("megatron_legacy")
    (root / SHARD).unlink()
    os.mkfifo(root / SHARD)
    found = one(scan(root), 10)
    assert found.complete is False
    assert any("neither a file nor a directory" in p for p in found.problems)


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", sorted(folder.name for folder in FIXTURES.iterdir()))
@pytest.mark.parametrize(
    "change",
    [Path.unlink, lambda file: os.truncate(file, file.stat().st_size - 1), lambda file: os.truncate(file, 1 << 20), a_pipe, a_folder],
    ids=["gone", "shorter", "longer", "a pipe", "a folder"],
)  # fmt: skip
def test_a_file_that_changes_between_listing_and_reading_leaves_it_open(
    tree: Callable[[str], Path], name: str, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, opened = tree(name), File.open
    changed: list[str] = []

    def late(file: File) -> BinaryIO:
        if not changed and file.name != "commit_success.txt":  # of this mark only the presence counts
            change(file.path)
            changed.append(file.rel)
        return opened(file)

    monkeypatch.setattr(File, "open", late)
    one = next(one for one in scan(root).checkpoints if one.path == "." or _holds(one, changed[0]))
    assert one.complete is not True
    assert any("cannot be read" in problem for problem in one.problems)


def _holds(one: Checkpoint, rel: str) -> bool:
    return rel.startswith(one.path.partition("{rank}")[0])


def test_unreadable_directory_is_no_proof_of_loss(tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree("megatron_dist")
    listed = os.scandir

    def denied(path: Any) -> Any:
        if Path(path).name == "iter_0000020":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", denied)
    found = one(scan(root), 20)
    assert found.complete is None
    assert found.problems == ("cannot be listed: Permission denied",)


def test_unreadable_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(UsageError, match="Permission denied"):
        scan(tmp_path)


def test_missing_root_and_file_as_root(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no checkpoint directory"):
        scan(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is no directory"):
        scan(tmp_path / "file")


def test_names_are_made_fit_to_print(tmp_path: Path) -> None:
    torch_zip(tmp_path, "a\x1b[31mb_step_5.pt", pickle.dumps({}, protocol=2))
    assert one(scan(tmp_path), 5).path == "a\\x1b[31mb_step_5.pt"


def test_what_proves_it_incomplete_is_told_first(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    for name in ("optimizer.pt", "scheduler.pt", "trainer_state.json"):
        (root / "checkpoint-20" / name).unlink()
    problems = one(scan(root), 20).problems
    assert "trainer_state.json" in problems[0]
    assert problems[1] == "no optimizer state inside: weights only"


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert scan(tmp_path) == Inventory(str(tmp_path.resolve()), (), None, None)


ZIPPED = (FIXTURES / "megatron_legacy" / SHARD).read_bytes()
OLD = (FIXTURES / "lightning" / "old-epoch=1.ckpt").read_bytes()
METADATA = (FIXTURES / "dcp/step-30/.metadata").read_bytes()


@given(st.sampled_from([ZIPPED, OLD]), st.integers(min_value=20, max_value=2700))
@settings(max_examples=60, deadline=None)
def test_no_prefix_of_a_file_passes(whole: bytes, length: int) -> None:
    assert read_torch(io.BytesIO(whole[:length]), length).faults


@given(st.sampled_from([ZIPPED, OLD]), st.integers(min_value=0), st.binary(min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_damage_is_survived(whole: bytes, at: int, junk: bytes) -> None:
    at %= len(whole)
    damaged = whole[:at] + junk + whole[at + len(junk) :]
    read_torch(io.BytesIO(damaged), len(damaged), deep=True)


@given(st.integers(min_value=0), st.binary(min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_damaged_pickles_are_refused_or_read(at: int, junk: bytes) -> None:
    at %= len(METADATA)
    try:
        read_pickle(METADATA[:at] + junk + METADATA[at + len(junk) :])
    except Refused:
        return


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner) | st.tuples(inner, inner),
    max_leaves=20,
), st.integers(2, 5))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    if protocol > 2 or not _has_bytes(value):  # protocol 2 writes bytes as a call of codecs
        assert read_pickle(pickle.dumps(value, protocol))[0] == value


def _has_bytes(value: Any) -> bool:
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, bytes) or any(map(_has_bytes, parts))


# numbers


@given(
    st.sampled_from(["float64", "float32", "float16"]),
    st.lists(st.floats(width=16), max_size=50),
)
def test_tally_agrees_with_numpy(dtype: str, values: list[float]) -> None:
    array = np.array(values, dtype)
    found = tally(array.tobytes(), dtype)
    assert found.values == array.size
    assert found.nan == np.isnan(array).sum()
    assert found.plus_inf == np.isposinf(array).sum()
    assert found.minus_inf == np.isneginf(array).sum()


@pytest.mark.parametrize(
    ("dtype", "raw", "nan", "infinite"),
    [
        ("bfloat16", b"\x80\x7f\x80\xff\xc0\x7f\x80\x3f", 1, 2),
        ("float8_e5m2", b"\x7c\xfc\x7d\x3c", 1, 2),
        ("float8_e4m3fn", b"\x7f\xff\x7e\x38", 2, 0),
    ],
)
def test_tally_of_types_numpy_lacks(dtype: str, raw: bytes, nan: int, infinite: int) -> None:
    found = tally(raw, dtype)
    assert (found.nan, found.plus_inf + found.minus_inf) == (nan, infinite)


@pytest.mark.parametrize(
    ("values", "name", "finite"),
    [
        (np.triu(np.full((4, 4), -np.inf), 1), "layers.0.bias", True),  # a causal mask
        (np.array([1.0, -np.inf, 1, 1, 1]), "attention_mask", True),
        (np.array([1.0, -np.inf, 1, 1, 1]), "layers.0.weight", False),
        (np.array([1.0, np.inf, 1, 1, 1]), "layers.0.weight", False),
        (np.array([np.inf]), "best_score", True),
        (np.array([np.nan]), "scale", False),
        (np.array([], dtype=np.float64), "empty", None),
    ],
)
def test_which_infinities_count(values: np.ndarray[Any, Any], name: str, finite: bool | None) -> None:
    raw = io.BytesIO(values.tobytes())
    assert check(raw, [Tensor(name, "float64", 0, values.size)], Reading(), 1)[0] is finite


def test_large_tensors_are_sampled_unless_deep() -> None:
    values = np.zeros(1 << 20, np.float32)
    values[1000] = np.nan
    tensors = [Tensor("w", "float32", 0, values.size)]
    raw = io.BytesIO(values.tobytes())
    few = Reading(bytes_left=64)
    assert check(raw, tensors, few, 1)[0] is True
    assert few.bytes_left == 0
    assert check(raw, tensors, Reading(bytes_left=0), 1)[0] is None
    assert check(raw, tensors, Reading(deep=True), 1)[0] is False


# names, layouts, hints


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("iter_0000010", 10),
        ("global_step500", 500),
        ("checkpoint-4000", 4000),
        ("epoch=9-step=200000.ckpt", 200000),
        ("opt_step-16250", 16250),
        ("ep0-ba100-rank3.pt", 100),
        ("model-val_loss=0.25-step=30-last", 30),
        ("epoch_3.pt", None),
        ("last.ckpt", None),
    ],
)
def test_step_of(name: str, step: int | None) -> None:
    assert step_of(name) == step


def test_every_layout_says_how_to_resume() -> None:
    names = [layout.name for layout in load_layouts()]
    assert len(names) == len(set(names))
    for layout in load_layouts():
        assert layout.hint
        assert (layout.recognises is None) == (layout.read is None)
        assert (layout.groups is None) == (layout.read_files is None)


def test_paths_in_hints_are_quoted(tree: Callable[[str], Path]) -> None:
    root = tree("hf_trainer")
    odd = root.parent / "a b; rm x"
    root.rename(odd)
    inventory = scan(odd)
    text = hint_for(inventory, one(inventory, 20))
    assert f"--resume_from_checkpoint '{odd}/checkpoint-20'" in text
    assert f"resume_from_checkpoint={f'{odd}/checkpoint-20'!r})" in text


def test_folder_walk_is_limited(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 20)
    deep.mkdir(parents=True)
    (deep / "f").touch()
    assert list(Folder(tmp_path).walk()) == []


# --- thousands of files


def test_of_many_files_only_what_is_asked_for_is_kept_and_equal_descriptions_are_read_once(
    tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("megatron_legacy") / "iter_0000010"
    raw = (root / "mp_rank_00_000" / "model_optim_rng.pt").read_bytes()
    for number in range(40):
        (root / f"{number}.pt").write_bytes(raw)
    files = [(file.name, file) for file in Folder(root).files.values()]
    read: list[int] = []
    monkeypatch.setattr(torch_file, "read_pickle", lambda data: (read.append(len(data)), read_pickle(data))[1])
    torch_file._described_again.cache_clear()

    class Kept:
        def __init__(self, tree: object) -> None:
            self.sizes = len(torch_file.attributes(tree))

    kept = torch_file.inspect_all(files, Findings(), Reading(), Kept)
    assert len(kept) == 40
    assert {one.sizes for one in kept} == {len(torch_file.attributes(read_torch(io.BytesIO(raw), len(raw)).tree))}
    assert len(read) <= WORKERS + 1  # once, or once by each thread that came before the first was done
    assert torch_file.inspect_all(files, Findings(), Reading()) == [None] * 40


def test_a_search_without_loose_files_asks_no_layout_for_them(
    tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("megatron_legacy")
    (root / "model.pt").write_bytes((root / SHARD).read_bytes())
    everything = [one.path for one in scan(root).checkpoints]
    monkeypatch.setattr(inventory, "_search_files", None)
    assert [one.path for one in scan(root, loose=False).checkpoints] == [p for p in everything if p != "model.pt"]
    assert "model.pt" in everything
