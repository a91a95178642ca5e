"""Checkpoint lines of Megatron-LM (1.0 to core 0.20, with its ``progress.txt``) and DeepSpeed (0.5 to 0.19)."""

from __future__ import annotations

from parsers._checkpoint_lines import PATH, line

MEGATRON = (
    line(
        "save_started",
        "Megatron",
        ("saving checkpoint at iteration",),
        # 1.0 printed one line a rank; the format exists from core 0.6, the time in brackets (peeled) from 0.19
        r"(?:global rank (?P<rank>\d+) is )?saving checkpoint at iteration\s+(?P<step>\d+) to (?P<path>\S+)"
        r"(?: in (?P<backend>\S+) format)?",
        "saving checkpoint at iteration    1200 to /mnt/ckpt in torch_dist format",
        not_samples=("saving dataloader checkpoint at iteration 1200 to /mnt/ckpt/loader",),
    ),
    line(
        "save_finished",
        "Megatron",
        ("uccessfully saved checkpoint",),
        r"[Ss]uccessfully saved checkpoint (?:at|from) iteration\s+(?P<step>\d+) to (?P<path>\S+)"
        r"(?: \[ t \d+/(?P<tp>\d+),.*?\bp \d+/(?P<pp>\d+) \])?",
        "  successfully saved checkpoint from iteration    1200 to /mnt/ckpt [ t 1/2, p 1/4 ]",
    ),
    line(
        "save_finished",
        "Megatron",
        ("successfully saved local checkpoint",),
        r"successfully saved local checkpoint from iteration\s+(?P<step>\d+)",
        "successfully saved local checkpoint from iteration    1200",
        scope="node",
    ),
    line(
        "file_saved",
        "Megatron",
        ("  successfully saved ",),
        r"successfully saved (?P<path>\S*iter_(?P<step>\d+)/\S+)",
        "  successfully saved /mnt/ckpt/iter_0001200/mp_rank_00/model_optim_rng.pt",
    ),
    line(
        "save_scheduled",
        "Megatron",
        ("scheduled an async checkpoint save",),
        r"scheduled an async checkpoint save at iteration\s+(?P<step>\d+)(?: to (?P<path>\S+))?",
        "  scheduled an async checkpoint save at iteration    1200 to /mnt/ckpt",
    ),
    line(
        "deleted",
        "Megatron",
        ("successfully deleted checkpoint",),
        r"successfully deleted checkpoint from iteration\s+(?P<step>\d+)(?: at (?P<path>\S+))?",
        "  successfully deleted checkpoint from iteration    1000 at /mnt/ckpt",
    ),
    line(
        "load_started",
        "Megatron",
        (
            " loading checkpoint from",
            " loading distributed checkpoint from",
            " loading release ",
            "loading local checkpoint",
        ),
        r"^\s*loading (?:release |distributed |local |global )*checkpoint from (?P<path>\S+)(?: at "
        r"iteration\s+(?P<step>\d+))?",
        " loading distributed checkpoint from /mnt/ckpt at iteration 1200",
    ),
    line(
        "loaded",
        "Megatron",
        ("successfully loaded checkpoint from",),
        r"successfully loaded checkpoint from (?P<path>\S+)\s+(?:\[[^\]]*\]\s+)?at iteration\s+(?P<step>\d+)",
        "  successfully loaded checkpoint from /mnt/ckpt [ t 1/2, p 1/4 ] at iteration 1200",
    ),
    line(
        "load_failed",
        "Megatron",
        ("could not load the checkpoint",),
        r"could not load the checkpoint",
        "could not load the checkpoint",
        severity="error",
    ),
    line(
        "load_failed",
        "Megatron",
        ("Unable to load optimizer from checkpoint", "Unable to load rng state from checkpoint"),
        r"Unable to load (?P<part>optimizer|rng state) from checkpoint (?P<path>\S+)\. ",
        "Unable to load optimizer from checkpoint /mnt/ckpt/iter_0001200/mp_rank_00/model_optim_rng.pt. Specify "
        "--no-load-optim or --finetune to prevent attempting to load the optimizer state, exiting ...",
        severity="error",
    ),
    line(
        "load_failed",
        "Megatron",
        ("ERROR: Invalid metadata file",),
        r"ERROR: Invalid metadata file (?P<path>\S+)\. Exiting",
        "ERROR: Invalid metadata file /mnt/ckpt/latest_checkpointed_iteration.txt. Exiting",
        severity="error",
        part="tracker",
    ),
    line(
        "load_failed",
        "Megatron",
        ("'--exit-on-missing-checkpoint'",),
        r"'--exit-on-missing-checkpoint' (?:set \.\.\. exiting|is set but no checkpoint was found)",
        ">> '--exit-on-missing-checkpoint' set ... exiting. <<",
        severity="error",
        part="missing",
    ),
    line(
        "tracker_mismatch",
        "Megatron",
        ("in the metadata while max iteration across the ranks",),
        r"on rank (?P<rank>\d+) found iteration (?P<step>\d+) in the metadata while max iteration across the ranks is "
        r"(?P<max_step>\d+)",
        "WARNING: on rank 9 found iteration 1000 in the metadata while max iteration across the ranks is 1200, "
        "replacing "
        "it with max iteration.",
        severity="warning",
    ),
    line(
        "incomplete_found",
        "Megatron",
        ("Overwriting old incomplete / corrupted checkpoint",),
        r"Overwriting old incomplete / corrupted checkpoint",
        "Overwriting old incomplete / corrupted checkpoint...",
        severity="warning",
    ),
    # progress.txt: time, job, number of GPUs, text; separated by tabs
    line(
        "save_finished",
        "Megatron",
        ("\tSaved checkpoint\tIteration", "\tSaved async checkpoint\tIteration"),
        r"# GPUs: (?P<world_size>\d+)\tSaved (?:async )?checkpoint\tIteration:\s*(?P<step>\d+)",
        "2024-05-01 07:40:18\tJob ID: 123\t# GPUs: 64\tSaved checkpoint\tIteration: 1200",
    ),
    line(
        "save_scheduled",
        "Megatron",
        ("\tSaving async checkpoint\tIteration",),
        r"# GPUs: (?P<world_size>\d+)\tSaving async checkpoint\tIteration:\s*(?P<step>\d+)",
        "2024-05-01 07:40:18\tJob ID: 123\t# GPUs: 64\tSaving async checkpoint\tIteration: 1200",
    ),
    line(
        "deleted",
        "Megatron",
        ("\tDeleted checkpoint\tIteration",),
        r"\tDeleted checkpoint\tIteration:\s*(?P<step>\d+)",
        "2024-05-01 07:40:18\tJob ID: 123\t# GPUs: 64\tDeleted checkpoint\tIteration: 1000",
    ),
)

DEEPSPEED = (
    line(
        "save_started",
        "DeepSpeed",
        (" is about to be saved!",),
        r"\[\w+\] Checkpoint (?P<tag>\S*?(?P<step>\d+)?) is about to be saved!",
        "[Rank 0] [Torch] Checkpoint global_step1200 is about to be saved!",
    ),
    line(
        "save_started",
        "DeepSpeed",
        ("[Nebula] Start Checkpoint for tag:", "Saving model checkpoint: "),
        rf"(?:Start Checkpoint for tag:\s*(?P<tag>\S+)|Saving model checkpoint: {PATH})",
        "Saving model checkpoint: /mnt/ckpt/global_step1200/mp_rank_00_model_states.pt",
    ),
    line(
        "save_finished",
        "DeepSpeed",
        (" is ready now!", " are saved in tier1"),
        r"(?:Checkpoint (?P<tag>\S*?(?P<step>\d+)?) is ready now!|all files for (?P<nebula_tag>\S+) are saved in "
        r"tier1)",
        "[Rank 0] [Torch] Checkpoint global_step1200 is ready now!",
    ),
    line(
        "file_saved",
        "DeepSpeed",
        ("[Torch] Saved ", "zero checkpoint saved ", "[Nebula] Saved "),
        rf"(?:\[\w+\] Saved|zero checkpoint saved) {PATH}",
        "[Torch] Saved /mnt/ckpt/global_step1200/zero_pp_rank_3_mp_rank_00_optim_states.pt.",
    ),
    line(
        "load_started",
        "DeepSpeed",
        ("] Loading checkpoint from ", "] Begin Load checkpoint from "),
        rf"\[\w+\] (?:Disable nebula load. )?(?:Loading|Begin Load) checkpoint from {PATH}",
        "[Rank 0] [Torch] Loading checkpoint from /mnt/ckpt/global_step1200/mp_rank_00_model_states.pt...",
    ),
    line(
        "loaded",
        "DeepSpeed",
        ("] Loaded checkpoint from ", "] End Load checkpoint from "),
        rf"\[\w+\] (?:Disable nebula load. )?(?:Loaded|End Load) checkpoint from {PATH}",
        "[Rank 0] [Torch] Loaded checkpoint from /mnt/ckpt/global_step1200/mp_rank_00_model_states.pt.",
    ),
    line(
        "loaded",
        "DeepSpeed",
        (" ZeRO state_dicts for rank ",),
        r"successfully (?:read|loaded) (?P<shards>\d+) ZeRO state_dicts for rank (?P<rank>\d+)",
        "successfully read 16 ZeRO state_dicts for rank 9",
        scope="rank",
    ),
    line(
        "load_failed",
        "DeepSpeed",
        ("Unable to find latest file at",),
        r"Unable to find latest file at (?P<path>[^\s,]+)",
        "Unable to find latest file at /mnt/ckpt/latest, if trying to load latest checkpoint please ensure this file "
        "exists or pass an explicit checkpoint tag when loading a checkpoint.",
        severity="warning",
        part="tracker",
    ),
    line(
        "tag_mismatch",
        "DeepSpeed",
        (" is not consistent across all ranks",),
        r"The checkpoint tag name '(?P<tag>[^']+)' is not consistent across all ranks",
        "[rank=9] The checkpoint tag name 'global_step1200' is not consistent across all ranks. Including rank unique "
        "information in checkpoint tag could cause issues when restoring with different world sizes.",
        severity="warning",
    ),
)
