"""Megatron-LM's own validation of argument lists, for `test_preflight_megatron.py`; run by an interpreter that has torch.

Standard input: JSON, a list of {"world_size": N, "arguments": [...]}. Standard output, last line: JSON, for each the
text of the error or null. The folder of a Megatron-LM checkout is the first argument.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import typing


def main() -> None:
    import typing_extensions

    if not hasattr(typing, "override"):  # Python before 3.12
        typing.override = typing_extensions.override  # type: ignore[attr-defined]
    sys.path.insert(0, sys.argv[1])
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    cases = json.load(sys.stdin)
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        verdicts = [_error(case["world_size"], case["arguments"]) for case in cases]
    out.write(json.dumps(verdicts) + "\n")


def _error(world_size: int, arguments: list[str]) -> str | None:
    import torch
    from megatron.core import num_microbatches_calculator, parallel_state
    from megatron.training import arguments as module

    if hasattr(module, "get_device_arch_version"):
        module.get_device_arch_version = lambda: 9  # asks the GPU
    sys.argv = ["pretrain_gpt.py", *arguments]
    try:
        args = module.parse_args()
        args.rank, args.world_size = 0, world_size
        module.validate_args(args)
        module.core_transformer_config_from_args(args)
        num_microbatches_calculator.ConstantNumMicroBatchesCalculator(
            args.global_batch_size, args.micro_batch_size, args.data_parallel_size, False, 0
        )
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
        try:
            parallel_state.initialize_model_parallel(
                args.tensor_model_parallel_size,
                args.pipeline_model_parallel_size,
                args.virtual_pipeline_model_parallel_size,
                context_parallel_size=args.context_parallel_size,
                expert_model_parallel_size=args.expert_model_parallel_size,
                expert_tensor_parallel_size=args.expert_tensor_parallel_size,
                create_gloo_process_groups=False,
            )
        finally:
            parallel_state.destroy_model_parallel()
            torch.distributed.destroy_process_group()
    except BaseException as fault:  # argparse leaves with SystemExit
        return f"{type(fault).__name__}: {fault}"
    return None


if __name__ == "__main__":
    main()
