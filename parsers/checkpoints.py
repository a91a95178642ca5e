"""What frameworks print about checkpoints: begun, done, scheduled, loaded, deleted, failed; with step and path.

Emitted by (versions checked): Megatron-LM 1.0 to core 0.20, also its ``progress.txt``; DeepSpeed 0.5 to 0.19; Hugging
Face Trainer 4.57 and Accelerate 1.x; PyTorch Lightning 1.0 to 2.6 and NeMo 1 and 2; torchtitan to 2026-08; Composer
0.14 to 0.32; OLMo and OLMo-core; Orbax and MaxText; torch.distributed.checkpoint; DLRover. Below them stand the forms that
private training loops use. ``format`` names the framework. A framework that prints no completion line (DeepSpeed's
newest, Hugging Face) gives only ``save_started``. ``file_saved`` is one file of one rank: not a checkpoint.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern, Severity

#: A path, bare or in quotes, without the dots that close the sentence; the group name is for the outer one.
_PATH = r"['\"]?(?P<path>[^\s'\"]*?[^\s'\".,;)])['\"]?(?:\.{1,3}|[,;)])*(?:\s|$)"
#: The same where the last component states the step: checkpoint-1200, global_step1200, iter_0001200, step=1200.ckpt …
_STEP_PATH = (
    r"['\"]?(?P<path>[^\s'\"]*?(?:checkpoint|ckpt|global_step|opt_step|step|iter|iteration|ba)[-_=]?(?P<step>\d+)"
    r"[^\s'\",;)]*?)['\"]?(?:\.{1,3}|[,;)])*(?:\s|$)"
)
_ANY_PATH = rf"(?:{_STEP_PATH}|{_PATH.replace('?P<path>', '?P<other_path>')})"


def _pattern(
    event: str,
    framework: str,
    literals: tuple[str, ...],
    regex: str,
    sample: str,
    *,
    severity: Severity = "info",
    not_samples: tuple[str, ...] = (),
    **fields: str,
) -> Pattern:
    return Pattern(
        event=f"checkpoint.{event}",
        literals=literals,
        regex=regex,
        severity=severity,
        fields={"format": framework, **fields},
        sample=sample,
        not_samples=not_samples,
    )


_MEGATRON = (
    _pattern(
        "save_started",
        "Megatron",
        ("saving checkpoint at iteration",),
        # 1.0 printed one line a rank; the format exists from core 0.6, the time in brackets (peeled) from 0.19
        r"(?:global rank (?P<rank>\d+) is )?saving checkpoint at iteration\s+(?P<step>\d+) to (?P<path>\S+)"
        r"(?: in (?P<backend>\S+) format)?",
        "saving checkpoint at iteration    1200 to /mnt/ckpt in torch_dist format",
        not_samples=("saving dataloader checkpoint at iteration 1200 to /mnt/ckpt/loader",),
    ),
    _pattern(
        "save_finished",
        "Megatron",
        ("successfully saved checkpoint", "uccessfully saved checkpoint from"),
        r"[Ss]uccessfully saved checkpoint (?:at|from) iteration\s+(?P<step>\d+) to (?P<path>\S+)"
        r"(?: \[ t \d+/(?P<tp>\d+)(?:, [a-oq-z]+ \d+/\d+)*, p \d+/(?P<pp>\d+) \])?",
        "  successfully saved checkpoint from iteration    1200 to /mnt/ckpt [ t 1/2, p 1/4 ]",
    ),
    _pattern(
        "save_finished",
        "Megatron",
        ("successfully saved local checkpoint",),
        r"successfully saved local checkpoint from iteration\s+(?P<step>\d+)",
        "successfully saved local checkpoint from iteration    1200",
        scope="node",
    ),
    _pattern(
        "file_saved",
        "Megatron",
        ("  successfully saved ",),
        r"successfully saved (?P<path>\S*iter_(?P<step>\d+)/\S+)",
        "  successfully saved /mnt/ckpt/iter_0001200/mp_rank_00/model_optim_rng.pt",
    ),
    _pattern(
        "save_scheduled",
        "Megatron",
        ("scheduled an async checkpoint save",),
        r"scheduled an async checkpoint save at iteration\s+(?P<step>\d+)(?: to (?P<path>\S+))?",
        "  scheduled an async checkpoint save at iteration    1200 to /mnt/ckpt",
    ),
    _pattern(
        "deleted",
        "Megatron",
        ("successfully deleted checkpoint",),
        r"successfully deleted checkpoint from iteration\s+(?P<step>\d+)(?: at (?P<path>\S+))?",
        "  successfully deleted checkpoint from iteration    1000 at /mnt/ckpt",
    ),
    _pattern(
        "load_started",
        "Megatron",
        (" loading checkpoint from", " loading distributed checkpoint from", " loading release ", "loading local checkpoint"),
        r"^\s*loading (?:release |distributed |local |global )*checkpoint from (?P<path>\S+)(?: at iteration\s+(?P<step>\d+))?",
        " loading distributed checkpoint from /mnt/ckpt at iteration 1200",
    ),
    _pattern(
        "loaded",
        "Megatron",
        ("successfully loaded checkpoint from",),
        r"successfully loaded checkpoint from (?P<path>\S+)\s+(?:\[[^\]]*\]\s+)?at iteration\s+(?P<step>\d+)",
        "  successfully loaded checkpoint from /mnt/ckpt [ t 1/2, p 1/4 ] at iteration 1200",
    ),
    _pattern(
        "load_failed",
        "Megatron",
        ("could not load the checkpoint",),
        r"could not load the checkpoint",
        "could not load the checkpoint",
        severity="error",
    ),
    _pattern(
        "load_failed",
        "Megatron",
        ("Unable to load optimizer from checkpoint", "Unable to load rng state from checkpoint"),
        r"Unable to load (?P<part>optimizer|rng state) from checkpoint (?P<path>\S+)\. ",
        "Unable to load optimizer from checkpoint /mnt/ckpt/iter_0001200/mp_rank_00/model_optim_rng.pt. Specify "
        "--no-load-optim or --finetune to prevent attempting to load the optimizer state, exiting ...",
        severity="error",
    ),
    _pattern(
        "load_failed",
        "Megatron",
        ("ERROR: Invalid metadata file",),
        r"ERROR: Invalid metadata file (?P<path>\S+)\. Exiting",
        "ERROR: Invalid metadata file /mnt/ckpt/latest_checkpointed_iteration.txt. Exiting",
        severity="error",
        part="tracker",
    ),
    _pattern(
        "load_failed",
        "Megatron",
        ("'--exit-on-missing-checkpoint'",),
        r"'--exit-on-missing-checkpoint' (?:set \.\.\. exiting|is set but no checkpoint was found)",
        ">> '--exit-on-missing-checkpoint' set ... exiting. <<",
        severity="error",
        part="missing",
    ),
    _pattern(
        "tracker_mismatch",
        "Megatron",
        ("in the metadata while max iteration across the ranks",),
        r"on rank (?P<rank>\d+) found iteration (?P<step>\d+) in the metadata while max iteration across the ranks is "
        r"(?P<max_step>\d+)",
        "WARNING: on rank 9 found iteration 1000 in the metadata while max iteration across the ranks is 1200, replacing "
        "it with max iteration.",
        severity="warning",
    ),
    _pattern(
        "incomplete_found",
        "Megatron",
        ("Overwriting old incomplete / corrupted checkpoint",),
        r"Overwriting old incomplete / corrupted checkpoint",
        "Overwriting old incomplete / corrupted checkpoint...",
        severity="warning",
    ),
    # progress.txt: time, job, number of GPUs, text; separated by tabs
    _pattern(
        "save_finished",
        "Megatron",
        ("\tSaved checkpoint\tIteration", "\tSaved async checkpoint\tIteration"),
        r"# GPUs: (?P<world_size>\d+)\tSaved (?:async )?checkpoint\tIteration:\s*(?P<step>\d+)",
        "2024-05-01 07:40:18\tJob ID: 123\t# GPUs: 64\tSaved checkpoint\tIteration: 1200",
    ),
    _pattern(
        "save_scheduled",
        "Megatron",
        ("\tSaving async checkpoint\tIteration",),
        r"# GPUs: (?P<world_size>\d+)\tSaving async checkpoint\tIteration:\s*(?P<step>\d+)",
        "2024-05-01 07:40:18\tJob ID: 123\t# GPUs: 64\tSaving async checkpoint\tIteration: 1200",
    ),
    _pattern(
        "deleted",
        "Megatron",
        ("\tDeleted checkpoint\tIteration",),
        r"\tDeleted checkpoint\tIteration:\s*(?P<step>\d+)",
        "2024-05-01 07:40:18\tJob ID: 123\t# GPUs: 64\tDeleted checkpoint\tIteration: 1000",
    ),
)

_DEEPSPEED = (
    _pattern(
        "save_started",
        "DeepSpeed",
        (" is about to be saved!",),
        r"\[\w+\] Checkpoint (?P<tag>\S*?(?P<step>\d*)) is about to be saved!",
        "[Rank 0] [Torch] Checkpoint global_step1200 is about to be saved!",
    ),
    _pattern(
        "save_started",
        "DeepSpeed",
        ("[Nebula] Start Checkpoint for tag:", "Saving model checkpoint: "),
        rf"(?:Start Checkpoint for tag:\s*(?P<tag>\S+)|Saving model checkpoint: {_ANY_PATH})",
        "Saving model checkpoint: /mnt/ckpt/global_step1200/mp_rank_00_model_states.pt",
    ),
    _pattern(
        "save_finished",
        "DeepSpeed",
        (" is ready now!", " are saved in tier1"),
        r"(?:Checkpoint (?P<tag>\S*?(?P<step>\d*)) is ready now!|all files for (?P<nebula_tag>\S+) are saved in tier1)",
        "[Rank 0] [Torch] Checkpoint global_step1200 is ready now!",
    ),
    _pattern(
        "file_saved",
        "DeepSpeed",
        ("[Torch] Saved ", "zero checkpoint saved ", "[Nebula] Saved "),
        rf"(?:\[\w+\] Saved|zero checkpoint saved) {_ANY_PATH}",
        "[Torch] Saved /mnt/ckpt/global_step1200/zero_pp_rank_3_mp_rank_00_optim_states.pt.",
    ),
    _pattern(
        "load_started",
        "DeepSpeed",
        ("] Loading checkpoint from ", "] Begin Load checkpoint from "),
        rf"\[\w+\] (?:Disable nebula load. )?(?:Loading|Begin Load) checkpoint from {_ANY_PATH}",
        "[Rank 0] [Torch] Loading checkpoint from /mnt/ckpt/global_step1200/mp_rank_00_model_states.pt...",
    ),
    _pattern(
        "loaded",
        "DeepSpeed",
        ("] Loaded checkpoint from ", "] End Load checkpoint from "),
        rf"\[\w+\] (?:Disable nebula load. )?(?:Loaded|End Load) checkpoint from {_ANY_PATH}",
        "[Rank 0] [Torch] Loaded checkpoint from /mnt/ckpt/global_step1200/mp_rank_00_model_states.pt.",
    ),
    _pattern(
        "loaded",
        "DeepSpeed",
        (" ZeRO state_dicts for rank ",),
        r"successfully (?:read|loaded) (?P<shards>\d+) ZeRO state_dicts for rank (?P<rank>\d+)",
        "successfully read 16 ZeRO state_dicts for rank 9",
        scope="rank",
    ),
    _pattern(
        "load_failed",
        "DeepSpeed",
        ("Unable to find latest file at",),
        r"Unable to find latest file at (?P<path>[^\s,]+)",
        "Unable to find latest file at /mnt/ckpt/latest, if trying to load latest checkpoint please ensure this file "
        "exists or pass an explicit checkpoint tag when loading a checkpoint.",
        severity="warning",
        part="tracker",
    ),
    _pattern(
        "tag_mismatch",
        "DeepSpeed",
        (" is not consistent across all ranks",),
        r"The checkpoint tag name '(?P<tag>[^']+)' is not consistent across all ranks",
        "[rank=9] The checkpoint tag name 'global_step1200' is not consistent across all ranks. Including rank unique "
        "information in checkpoint tag could cause issues when restoring with different world sizes.",
        severity="warning",
    ),
)

_HUGGING_FACE = (
    _pattern(
        "save_started",
        "Hugging Face",
        ("Saving model checkpoint to ", "Saving current state to "),
        rf"Saving (?:model checkpoint|current state) to {_ANY_PATH}",
        "Saving model checkpoint to /mnt/out/checkpoint-1200",
    ),
    _pattern(
        "file_saved",
        "Hugging Face",
        ("Model weights saved in ", "Optimizer state saved in ", "Random states saved in "),
        rf"(?:Model weights|Optimizer state|Random states) saved in {_ANY_PATH}",
        "Random states saved in /mnt/out/checkpoint_1200/random_states_0.pkl",
    ),
    _pattern(
        "deleted",
        "Hugging Face",
        ("Deleting older checkpoint [",),
        r"Deleting older checkpoint \[(?P<path>[^\]]*?(?P<step>\d*))\]",
        "Deleting older checkpoint [/mnt/out/checkpoint-800] due to args.save_total_limit",
    ),
    _pattern(
        "load_started",
        "Hugging Face",
        ("Loading model from ", "Loading states from ", "Checkpoint detected, resuming training at "),
        rf"(?:Loading (?:model|states) from|Checkpoint detected, resuming training at) {_ANY_PATH}",
        "Loading model from /mnt/out/checkpoint-1200.",
    ),
    _pattern(
        "loaded",
        "Hugging Face",
        ("Continuing training from global step",),
        r"Continuing training from global step (?P<step>\d+)",
        "  Continuing training from global step 1200",
    ),
    _pattern(
        "loaded",
        "Hugging Face",
        ("All random states loaded successfully",),
        r"All random states loaded successfully",
        "All random states loaded successfully",
    ),
)

_LIGHTNING = (
    _pattern(
        "save_started",
        "Lightning",
        (", saving model to ",),
        rf"Epoch (?P<epoch>\d+)(?:, global step (?P<step>\d+))?: .*, saving model to {_PATH}as top",
        "Epoch 9, global step 1200: 'val_loss' reached 3.31220 (best 3.31220), saving model to "
        "'/mnt/ckpt/epoch=9-step=1200.ckpt' as top 3",
    ),
    _pattern(
        "load_started",
        "Lightning",
        ("Restoring states from the checkpoint",),
        rf"Restoring states from the checkpoint (?:path )?at {_ANY_PATH}",
        "Restoring states from the checkpoint path at /mnt/ckpt/epoch=9-step=1200.ckpt",
    ),
    _pattern(
        "loaded",
        "Lightning",
        (" from the checkpoint at ", " from checkpoint at "),
        rf"(?:Restored all states|Loaded model weights) from (?:the )?checkpoint (?:file )?at {_ANY_PATH}",
        "Restored all states from the checkpoint at /mnt/ckpt/epoch=9-step=1200.ckpt",
    ),
    _pattern(
        "save_scheduled",
        "NeMo",
        ("Scheduled async checkpoint save for ",),
        rf"Scheduled async checkpoint save for {_ANY_PATH}",
        "Scheduled async checkpoint save for /mnt/exp/checkpoints/step=1200.ckpt",
    ),
    _pattern(
        "save_finished",
        "NeMo",
        ("Async checkpoint save for step",),
        r"Async checkpoint save for step (?P<step>\d+) \((?P<path>[^)]*)\) finalized successfully",
        "Async checkpoint save for step 1200 (/mnt/exp/checkpoints/step=1200.ckpt) finalized successfully.",
    ),
    _pattern(
        "file_saved",
        "NeMo",
        ("Global Checkpoint Save : Rank",),
        r"Global Checkpoint Save : Rank: (?P<rank>\d+) : (?:Iteration: (?P<step>\d+) : )?Start time: [\d.]+s : Save "
        r"duration: (?P<seconds>[\d.]+)s",
        "Global Checkpoint Save : Rank: 0 : Iteration: 1200 : Start time: 1714549218.151s : Save duration: 4.389s",
    ),
    _pattern(
        "incomplete_found",
        "NeMo",
        ("Removing unfinished checkpoint", "Removing unfinished dist checkpoint"),
        rf"Removing unfinished (?:dist )?checkpoint: {_ANY_PATH}",
        "Removing unfinished checkpoint: /mnt/exp/checkpoints/step=1200.ckpt",
        severity="warning",
    ),
)
