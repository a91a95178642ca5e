"""Checkpoint lines of the other frameworks.

Versions checked: Hugging Face Trainer 4.57 and Accelerate 1.x; PyTorch Lightning 1.0 to 2.6, NeMo 1 and 2; torchtitan
to 2026-08; Composer 0.14 to 0.32; OLMo and OLMo-core; Orbax and MaxText; torch.distributed.checkpoint; DLRover;
nanotron.
"""

from __future__ import annotations

from parsers._checkpoint_lines import PATH, line

HUGGING_FACE = (
    line(
        "save_started",
        "Hugging Face",
        ("Saving model checkpoint to ", "Saving current state to "),
        rf"Saving (?:model checkpoint|current state) to {PATH}",
        "Saving model checkpoint to /mnt/out/checkpoint-1200",
        completion="none",
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
        r"Deleting older checkpoint \[(?P<path>[^\]]*?(?P<step>\d{1,12})?)\]",
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
        r"Epoch (?P<epoch>\d+)(?:, global step (?P<step>\d+))?: .*, saving model to ['\"]?(?P<path>.+?)['\"]? as top",
        "Epoch 9, global step 1200: 'val_loss' reached 3.31220 (best 3.31220), saving model to "
        "'/mnt/ckpt/epoch=9-step=1200.ckpt' as top 3",
        completion="none",
    ),
    line(
        "load_started",
        "other",
        ("resume=", "resume_from=", "resume_from_checkpoint=", "--resume ", "--resume_from_checkpoint "),
        r"\b(?:--)?resume(?:_from(?:_checkpoint)?)?[= ](?P<path>[\w./=-]+\.(?:pt|pth|ckpt|bin|tar|safetensors))\b",
        "run 1  world_size=8  resume=checkpoints/exp7/last.pt",
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
    line(
        "loaded",
        "NeMo",
        ("Finished restoring from RestoreConfig(",),
        r"Finished restoring from RestoreConfig\(path='?(?P<path>[^',)]+)",
        "Finished restoring from RestoreConfig(path='/mnt/exp/checkpoints/step=1200', load_optim_state=True), "
        "cleaning up.",
    ),
)

TITAN = (
    line(
        "save_started",
        "torchtitan",
        ("Saving the checkpoint",),
        r"^\W*Saving the checkpoint(?: \(or staging if async is enabled\))?\.",
        "Saving the checkpoint.",
    ),
    line(
        "save_scheduled",
        "torchtitan",
        ("taging the checkpoint",),
        r"(?:Staging|Finished staging) the checkpoint",
        "Finished staging the checkpoint in 1.22 seconds.",
    ),
    line(
        "save_started",
        "torchtitan",
        (" at last step, step ",),
        r"Saving a (?:full|model only) checkpoint.* at last step, step (?P<step>\d+)\.",
        "Saving a full checkpoint at last step, step 1200.",
    ),
    line(
        "save_finished",
        "torchtitan",
        ("Finished saving the checkpoint", "Last step checkpoint completed"),
        r"(?:Finished saving the checkpoint|Last step checkpoint completed)\b.* in (?P<seconds>[\d.]+) ?s",
        "Finished saving the checkpoint in 12.34 seconds.",
    ),
    line(
        "load_started",
        "torchtitan",
        ("Loading the checkpoint ",),
        rf"Loading the checkpoint (?:from {PATH}|at step (?P<at_step>\d+))",
        "Loading the checkpoint from /mnt/out/checkpoint/step-1200.",
    ),
    line(
        "loaded",
        "torchtitan",
        ("Finished loading the checkpoint",),
        r"Finished loading the checkpoint in (?P<seconds>[\d.]+)",
        "Finished loading the checkpoint in 1.20 seconds.",
    ),
    line(
        "deleted",
        "torchtitan",
        ("Checkpointer is deleting ",),
        rf"Checkpointer is deleting {PATH}",
        "Checkpointer is deleting /mnt/out/checkpoint/step-800.",
    ),
)

COMPOSER = (
    line(
        "save_started",
        "Composer",
        ("Saving sharded checkpoints to ", "Saving monolithic checkpoint to "),
        rf"Saving (?:sharded checkpoints|monolithic checkpoint) to {PATH}",
        "Saving monolithic checkpoint to /mnt/run/checkpoints/ep0-ba1200-rank0.pt",
    ),
    line(
        "save_finished",
        "Composer",
        ("done saving checkpoint to disk at ", "Checkpoint locally saved to "),
        rf"(?:done saving checkpoint to disk at|Checkpoint locally saved to) {PATH}",
        "Checkpoint locally saved to /mnt/run/checkpoints/ep0-ba1200-rank0.pt",
    ),
    line(
        "loaded",
        "Composer",
        ("Trainer checkpoint loaded from ", "Model weights loaded from "),
        rf"(?:Trainer checkpoint|Model weights) loaded from {PATH}",
        "Trainer checkpoint loaded from /mnt/run/checkpoints/ep0-ba1200-rank0.pt",
    ),
)

OLMO = (  # OLMo-core; the older program's lines are of the general form
    line(
        "save_started",
        "OLMo",
        ("Saving checkpoint for step ",),
        r"Saving checkpoint for step (?P<step>\d+) to '(?P<path>[^']+)'(?P<mode> asynchronously)?\.\.\.",
        "Saving checkpoint for step 1200 to '/mnt/run/step1200'...",
    ),
    line(
        "save_finished",
        "OLMo",
        ("Checkpoint for step ",),
        r"Checkpoint for step (?P<step>\d+) saved successfully",
        "Checkpoint for step 1200 saved successfully",
    ),
    line(
        "deleted",
        "OLMo",
        ("Removing old checkpoint at ",),
        rf"Removing old checkpoint at {PATH}",
        "Removing old checkpoint at '/mnt/run/step800'...",
    ),
    line(
        "loaded",
        "OLMo",
        ("Checkpoint successfully loaded", "Will resume training from step "),
        r"(?:Checkpoint successfully loaded|Will resume training from step (?P<step>\d+))",
        "Will resume training from step 1200, epoch 1",
    ),
)

_ORBAX_PATH = r"(?P<path>\S*?(?:/(?P<step>\d+)(?:/\S*?)?)?)\.?(?:\s|$)"
ORBAX = (
    line(
        "save_started",
        "Orbax",
        ("Saving checkpoint at step ",),
        r"Saving checkpoint at step (?P<step>\d+)(?P<mode> due to preemption)?",
        "[process=3] Saving checkpoint at step 1200",
    ),
    line(
        "save_scheduled",
        "Orbax",
        ("Started async saving checkpoint to ",),
        rf"Started async saving checkpoint to {_ORBAX_PATH}",
        "[process=3][thread=MainThread] Started async saving checkpoint to gs://bucket/run/checkpoints/1200.",
    ),
    line(
        "save_finished",
        "Orbax",
        ("Finished async_save (blocking + background)", "Finished asynchronous save (blocking + background)"),
        rf"Finished async(?:_save|hronous save) \(blocking \+ background\).*?(?:directory=| to ){_ORBAX_PATH}",
        "Finished async_save (blocking + background). Time taken: 12.412346s. "
        "directory=gs://bucket/run/checkpoints/1200",
    ),
    line(
        "save_finished",
        "Orbax",
        ("inished saving step ", "inished saving checkpoint at step ", "saved a checkpoint at step "),
        r"(?:[Ff]inished saving (?:checkpoint at )?step|saved a checkpoint at step) (?P<step>\d+)",
        "[process=3] finished saving step 1200",
    ),
    line(
        "load_started",
        "Orbax",
        ("restoring from this run's directory step ", "Restoring checkpoint from ", "Restoring checkpoint at step "),
        r"(?:restoring from this run's directory step|Restoring checkpoint at step) (?P<step>\d+)|Restoring checkpoint "
        r"from (?P<path>\S*[^\s.])",
        "restoring from this run's directory step 1200",
    ),
    line(
        "loaded",
        "Orbax",
        ("Finished restoring checkpoint", "Checkpoint restored from step "),
        r"(?:Finished restoring checkpoint at|Checkpoint restored from) step (?P<step>\d+)|Finished restoring "
        r"checkpoint "
        r"in [\d.]+ seconds from (?P<path>\S*[^\s.])",
        "Finished restoring checkpoint at step 1200.",
    ),
    line(
        "deleted",
        "Orbax",
        ("Deleted step ", "Deleting checkpoint at step "),
        r"(?:Deleted step|Deleting checkpoint at step) (?P<step>\d+)",
        "Deleted step 800.",
    ),
)

OTHERS = (
    line(
        "incomplete_found",
        "torch DCP",
        ("Detected an existing checkpoint in ",),
        rf"Detected an existing checkpoint in {PATH}",
        "Detected an existing checkpoint in /mnt/ckpt/step-1200, overwriting since self.overwrite=True. Past "
        "version 2.5 "
        "of PyTorch, `overwrite` will default to False.",
        severity="warning",
    ),
    line(
        "save_finished",
        "DLRover",
        ("All agents finish saving checkpoint for step ",),
        r"All agents finish saving checkpoint for step (?P<step>\d+)",
        "All agents finish saving checkpoint for step 1200",
    ),
    line(
        "save_failed",
        "DLRover",
        ("Commit checkpoint timeout for step ",),
        r"Commit checkpoint timeout for step (?P<step>\d+)",
        "Commit checkpoint timeout for step 1200, timeout=600",
        severity="error",
    ),
    line(
        "save_started",
        "nanotron",
        ("Saving checkpoint at ",),
        r"Saving checkpoint at (?P<path>\S*/(?P<step>\d+))\s*$",
        "Saving checkpoint at /mnt/run/checkpoints/1200",
        not_samples=("Saving checkpoint at step 1200",),
        completion="none",
    ),
)
