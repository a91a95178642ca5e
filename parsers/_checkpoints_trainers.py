"""Checkpoint lines of the other frameworks.

Versions checked: Hugging Face Trainer 4.57 and Accelerate 1.x; PyTorch Lightning 1.0 to 2.6, NeMo 1 and 2; torchtitan
to 2026-08; Composer 0.14 to 0.32; OLMo and OLMo-core; Orbax and MaxText (``process=`` heads); torch.distributed.checkpoint;
DLRover; nanotron.
"""

from __future__ import annotations

from parsers._checkpoint_lines import PATH, line, path_with_step

HUGGING_FACE = (
    line(
        "save_started",
        "Hugging Face",
        ("Saving model checkpoint to ", "Saving current state to "),
        rf"Saving (?:model checkpoint|current state) to {PATH}",
        "Saving model checkpoint to /mnt/out/checkpoint-1200",
    ),
    line(
        "file_saved",
        "Hugging Face",
        ("Model weights saved in ", "Optimizer state saved in ", "Random states saved in "),
        rf"(?:Model weights|Optimizer state|Random states) saved in {PATH}",
        "Random states saved in /mnt/out/checkpoint_1200/random_states_0.pkl",
    ),
    line(
        "deleted",
        "Hugging Face",
        ("Deleting older checkpoint [",),
        r"Deleting older checkpoint \[(?P<path>[^\]]*?(?P<step>\d*))\]",
        "Deleting older checkpoint [/mnt/out/checkpoint-800] due to args.save_total_limit",
    ),
    line(
        "load_started",
        "Hugging Face",
        ("Loading model from ", "Loading states from ", "Checkpoint detected, resuming training at "),
        rf"(?:Loading (?:model|states) from|Checkpoint detected, resuming training at) {PATH}",
        "Loading model from /mnt/out/checkpoint-1200.",
    ),
    line(
        "loaded",
        "Hugging Face",
        ("Continuing training from global step",),
        r"Continuing training from global step (?P<step>\d+)",
        "  Continuing training from global step 1200",
    ),
    line(
        "loaded",
        "Hugging Face",
        ("All random states loaded successfully",),
        r"All random states loaded successfully",
        "All random states loaded successfully",
    ),
)

LIGHTNING = (
    line(
        "save_started",
        "Lightning",
        (", saving model to ",),
        rf"Epoch (?P<epoch>\d+)(?:, global step (?P<step>\d+))?: .*, saving model to {PATH}as top",
        "Epoch 9, global step 1200: 'val_loss' reached 3.31220 (best 3.31220), saving model to "
        "'/mnt/ckpt/epoch=9-step=1200.ckpt' as top 3",
    ),
    line(
        "load_started",
        "Lightning",
        ("Restoring states from the checkpoint",),
        rf"Restoring states from the checkpoint (?:path )?at {PATH}",
        "Restoring states from the checkpoint path at /mnt/ckpt/epoch=9-step=1200.ckpt",
    ),
    line(
        "loaded",
        "Lightning",
        (" from the checkpoint at ", " from checkpoint at "),
        rf"(?:Restored all states|Loaded model weights) from (?:the )?checkpoint (?:file )?at {PATH}",
        "Restored all states from the checkpoint at /mnt/ckpt/epoch=9-step=1200.ckpt",
    ),
    line(
        "save_scheduled",
        "NeMo",
        ("Scheduled async checkpoint save for ",),
        rf"Scheduled async checkpoint save for {PATH}",
        "Scheduled async checkpoint save for /mnt/exp/checkpoints/step=1200.ckpt",
    ),
    line(
        "save_finished",
        "NeMo",
        ("Async checkpoint save for step",),
        r"Async checkpoint save for step (?P<step>\d+) \((?P<path>[^)]*)\) finalized successfully",
        "Async checkpoint save for step 1200 (/mnt/exp/checkpoints/step=1200.ckpt) finalized successfully.",
    ),
    line(
        "file_saved",
        "NeMo",
        ("Global Checkpoint Save : Rank",),
        r"Global Checkpoint Save : Rank: (?P<rank>\d+) : (?:Iteration: (?P<step>\d+) : )?Start time: [\d.]+s : Save "
        r"duration: (?P<seconds>[\d.]+)s",
        "Global Checkpoint Save : Rank: 0 : Iteration: 1200 : Start time: 1714549218.151s : Save duration: 4.389s",
    ),
    line(
        "incomplete_found",
        "NeMo",
        ("Removing unfinished checkpoint", "Removing unfinished dist checkpoint"),
        rf"Removing unfinished (?:dist )?checkpoint: {PATH}",
        "Removing unfinished checkpoint: /mnt/exp/checkpoints/step=1200.ckpt",
        severity="warning",
    ),
)
