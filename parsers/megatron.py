"""Lines of Megatron-LM: sizes, argument dump, iterations, phases, NaN, rerun state machine, orderly exits.

Emitted by: ``megatron/arguments.py``, ``megatron/training.py`` and, later, ``megatron/training/{arguments,initialize,
training}.py``, ``megatron/core/rerun_state_machine.py``. Versions checked: 1.0, 2.0, 2.5, 2.6, 23.04, 23.06, core 0.4
to 0.20; GPT-NeoX and Megatron-DeepSpeed print the same forms. Most lines come from rank 0 or the last rank, so who
prints says nothing about who failed. Times are local, without zone. Checkpoint lines are in ``checkpoints.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern
from parsers._dumps import as_fields, read_dotted


def _arguments(lines: Sequence[str]) -> list[Found]:
    """The dump between ``-- arguments --`` and ``end of arguments``, all names as attributes."""
    settings, last = read_dotted(lines, "end of arguments")
    if len(settings) < 3:
        return []
    return [Found(0, last, as_fields(settings), body=lines[0].strip(" -"))]


# `{:8d}/{:8d} |`, padded; the bracketed time in front exists from core 0.6. `lm loss` is missing when its mean is NaN.
# BLOOM's fork prints seconds, everybody else milliseconds.
_ITERATION = (
    r"iteration\s+(?P<step>\d+)\s*/\s*(?P<total>\d+) \|"
    r"(?:.*?elapsed time per iteration \((?:ms\):\s*(?P<elapsed_ms>\d+)|s\):\s*(?P<elapsed_s>[\d.]+)))?"
    r"(?:.*?\| (?:lm[ _])?loss: (?P<loss>[^ |]+))?"
    r"(?:.*?loss scale: (?P<loss_scale>[^ |]+))?"
    r"(?:.*?grad norm: (?P<grad_norm>[^ |]+))?"
    r"(?:.*?number of skipped iterations:\s*(?P<skipped>\d+))?"
    r"(?:.*?number of nan iterations:\s*(?P<nan>\d+))?"
)
_ITERATION_SAMPLE = (
    " [2024-05-01 07:40:18] iteration     1200/  500000 | consumed samples:      1228800 | elapsed time per iteration "
    "(ms): 5123.4 | learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: 2.345678E+00 | loss scale: 1.0 | "
    "grad norm: 0.412 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
#: `{:3d}` pads the count, so these literals stand for every count above zero.
_NAN_COUNTED = tuple(f"nan iterations: {blanks}{digit}" for blanks in ("  ", " ", "") for digit in range(1, 10))

# "Rank 3, node n, device 1[, iteration #12]: " in front of the verdicts; "Device: 1, node: n" behind, up to core 0.9.
_PLACE = r"Rank (?P<rank>\d+), node (?P<node>[^,\s]+), device (?:(?P<gpu>\d+)|\w+)(?:, iteration #?(?P<step>\d+))?: "
_MAYBE_PLACE = rf"(?:{_PLACE})?.*?"


def _rerun(literal: str, verdict: str, sample: str) -> Pattern:
    return Pattern(
        event="megatron.rerun",
        literals=(literal,),
        regex=_MAYBE_PLACE + literal.replace("(", r"\(").replace(")", r"\)"),
        fields={"verdict": verdict},
        sample=sample,
    )


def _tracked(status: str, verdict: str) -> Pattern:
    """One record of the rerun machine's own result log (``ts=… node=… device=…``)."""
    return Pattern(
        event="megatron.rerun",
        literals=(f"status={status} ",),
        regex=r"node=(?P<node>\S+) device=(?P<gpu>\d+) jobID=\S* rank=(?P<rank>\d+) iteration=(?P<step>\d+) "
        rf"status={status} result=(?P<result>\S+) message='(?P<message>.*)'",
        fields={"verdict": verdict},
        sample=f"ts=2024-05-01 07:40:18.123456 node=gpu-a017 device=1 jobID=123 rank=9 iteration=1201 status={status} "
        "result=nan message='found NaN in local forward loss calculation'",
    )


PARSER = Parser(
    name="megatron",
    patterns=(
        Pattern(
            event="megatron.parallel_sizes",
            literals=("using world size:",),
            regex=r"using world size: (?P<world_size>\d+),? (?:and |, )?data-parallel[- ]size: (?P<dp>\d+)"
            r"(?:.*?context-parallel size: (?P<cp>\d+))?.*?(?:tensor-)?model-parallel size: (?P<tp>\d+)"
            r"(?:,?.*?pipeline-model-parallel size: (?P<pp>\d+))?",
            severity="info",
            sample="using world size: 16, data-parallel size: 2, context-parallel size: 1, tensor-model-parallel size: "
            "4, pipeline-model-parallel size: 2 ",
        ),
        Pattern(
            event="megatron.parallel_sizes",
            literals=("> initialized tensor model parallel with size",),
            regex=r"> initialized tensor model parallel with size (?P<tp>\d+)",
            severity="info",
            sample="> initialized tensor model parallel with size 4",
        ),
        Pattern(
            event="megatron.parallel_sizes",
            literals=("> initialized pipeline model parallel with size",),
            regex=r"> initialized pipeline model parallel with size (?P<pp>\d+)",
            severity="info",
            sample="> initialized pipeline model parallel with size 2",
        ),
        Pattern(
            event="megatron.arguments",
            literals=("-- arguments --",),
            block=_arguments,
            block_lines=2000,
            severity="info",
            sample="------------------------ arguments ------------------------\n"
            "  global_batch_size ............................... 1024\n"
            "  pipeline_model_parallel_size .................... 2\n"
            "  tensor_model_parallel_size ...................... 4\n"
            "-------------------- end of arguments ---------------------",
            not_samples=("-------------------- end of arguments ---------------------",),
        ),
        Pattern(  # the same line as the next, but never to be thinned out: it says when the numbers went bad
            event="megatron.iteration",
            literals=(*_NAN_COUNTED, "loss: NAN |", "loss: nan |", "grad norm: nan |", "grad norm: inf |"),
            regex=_ITERATION,
            severity="warning",
            sample=_ITERATION_SAMPLE.replace("nan iterations:   0", "nan iterations:   1"),
        ),
        Pattern(
            event="megatron.iteration",
            literals=("elapsed time per iteration (",),
            regex=_ITERATION,
            severity="info",
            sparse=True,
            sample=_ITERATION_SAMPLE,
        ),
        Pattern(
            event="megatron.evaluation",
            literals=("validation loss at iteration",),
            regex=r"validation loss at iteration (?P<step>\d+)(?: on \S+ set)? \|(?:.*?loss value: (?P<loss>\S+))?",
            severity="info",
            sample=" validation loss at iteration 1000 | lm loss value: 2.345678E+00 | lm loss PPL: 1.044034E+01 | ",
        ),
        # exits before phases: they share "[…] datetime: …"
        Pattern(
            event="megatron.exit",
            literals=("exiting program after receiving",),
            regex=r"exiting program after receiving (?P<reason>\w+)",
            severity="info",
            sample="[exiting program after receiving SIGTERM.] datetime: 2024-05-01 07:40:18 ",
        ),
        Pattern(
            event="megatron.exit",
            literals=("exiting program at iteration", "exiting the program at iteration"),
            regex=r"exiting (?:the )?program at iteration (?P<step>\d+)",
            severity="info",
            fields={"reason": "iteration"},
            sample="[exiting program at iteration 1200] datetime: 2024-05-01 07:40:18 ",
        ),
        Pattern(
            event="megatron.exit",
            literals=("exiting program after ",),
            regex=r"exiting program after (?P<minutes>[\d.]+) minutes",
            severity="info",
            fields={"reason": "minutes"},
            sample="[exiting program after 230.4 minutes] datetime: 2024-05-01 07:40:18 ",
        ),
        Pattern(
            event="megatron.exit",
            literals=("Exiting during evaluation, timelimit reached",),
            regex=r"Exiting during evaluation, timelimit reached",
            severity="info",
            fields={"reason": "minutes"},
            sample="Exiting during evaluation, timelimit reached",
        ),
        Pattern(
            event="megatron.phase",
            literals=("] datetime: ",),
            regex=r"\[(?P<phase>(?:after|before|running|finished) [^\]]+)\] datetime: (?P<at>\S+ [\d:.]+)",
            severity="info",
            sample="[after megatron is initialized] datetime: 2024-05-01 07:40:18 ",
        ),
        Pattern(
            event="megatron.param_count",
            literals=("number of parameters on (tensor",),
            # the newest versions put a third coordinate between the two
            regex=r"number of parameters on \(tensor[^)]*\)\s+model parallel rank \((?P<tp>\d+), (?:\d+, "
            r")?(?P<pp>\d+)\): "
            r"(?P<parameters>\d+)",
            severity="info",
            sample=" > number of parameters on (tensor, pipeline) model parallel rank (1, 0): 1003884544",
        ),
        Pattern(
            event="megatron.from_scratch",
            literals=("could not find the metadata file",),
            regex=r"could not find the metadata file (?P<path>\S+)",
            severity="info",
            sample="WARNING: could not find the metadata file /mnt/ckpt/latest_checkpointed_iteration.txt",
        ),
        Pattern(
            event="megatron.from_scratch",
            literals=("will start from random",),
            regex=r"will not load any checkpoints and will start from random",
            severity="info",
            sample="    will not load any checkpoints and will start from random",
        ),
        Pattern(
            event="megatron.nan",
            literals=("found NaN in local", "found Inf in local"),
            regex=r"Rank (?P<rank>\d+): (?P<message>found (?:NaN|Inf) in local .*?)\. Device: (?:(?P<gpu>\d+)|\w+), "
            r"node: (?P<node>\S+)",
            sample="AssertionError: Rank 9: found NaN in local grad norm in backward pass before data-parallel "
            "communication collective. Device: 1, node: gpu-a018",
        ),
        Pattern(
            event="megatron.nan",
            literals=("Unexpected result ",),
            regex=_PLACE + r"Unexpected result (?P<result>\S+) \(message='(?P<message>.*?)'\)",
            sample="RuntimeError: Rank 9, node gpu-a018, device 1, iteration 1201: Unexpected result nan "
            "(message='found "
            "NaN in local grad norm for bucket #0 in backward pass before data-parallel communication collective')",
        ),
        Pattern(
            event="megatron.nan",
            literals=("Unexpected result ",),
            regex=r"Unexpected result (?P<result>\S+)(?: on rank (?P<rank>\d+))? at .*?iteration #(?P<step>\d+)"
            r".*?\(message='(?P<message>.*?)'\)",
            sample="ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 9 at iteration #1201 "
            "invocation "
            "#1 (message='found NaN in local forward loss calculation')",
        ),
        _rerun(
            "First rerun: unexpected result is not reproducible",
            "not-reproducible",
            "Rank 9, node gpu-a018, device 1, iteration #1201: First rerun: unexpected result is not reproducible "
            "within "
            "the tolerance (2.5 != nan)!",
        ),
        _rerun(
            "First rerun: unexpected result is reproducible",
            "reproducible",
            "Rank 9, node gpu-a018, device 1, iteration #1201: First rerun: unexpected result is reproducible "
            "within the "
            "tolerance (nan = nan). Need to rerun on a different GPU to verify correctness.!",
        ),
        _rerun(
            "Second rerun: unexpected result is not reproducible",
            "persistent",
            "Second rerun: unexpected result is not reproducible on a different GPU, therefore was likely incorrect "
            "(2.5 != nan)",
        ),
        _rerun(
            "Second rerun: unexpected result is reproducible",
            "correct",
            "Second rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct "
            "(nan = nan)",
        ),
        _rerun(
            "Possible transient error!",
            "transient",
            "Rank 9, node gpu-a018, device 1, iteration #1201: Possible transient error!!",
        ),
        _rerun(
            "Possible persistent error!", "persistent", "Rank 9, node gpu-a018, device 1: Possible persistent error!"
        ),
        _rerun(
            "Correct result (but possible Application error)",
            "correct",
            "Rank 9, node gpu-a018, device 1, iteration #1201: Correct result (but possible Application error) (nan)!",
        ),
        Pattern(
            event="megatron.rerun",
            literals=("Got rescheduled on the same GPU",),
            regex=r"Got rescheduled on the same GPU.*?(?:\(node: (?P<node>[^,]+), gpu: (?P<gpu>\d+)\))?$",
            severity="warning",
            fields={"verdict": "same-gpu"},
            sample="Got rescheduled on the same GPU. Need to resume again from the same checkpoint (node: gpu-a018, "
            "gpu: 1)",
        ),
        Pattern(  # stops by the rerun machine: exit codes 16 and 17; not orderly, a wrong result came before
            event="megatron.rerun",
            literals=("Saving a checkpoint and exiting now. Please resume", "Exiting now. "),
            regex=r"(?:Saving a checkpoint and exiting now|Exiting now)\. (?:Please resume the job from the|The job "
            r"can be "
            r"resumed from a previous checkpoint|A checkpoint at the last iteration already exists)",
            severity="warning",
            fields={"verdict": "exit"},
            sample="Exiting now. The job can be resumed from a previous checkpoint",
            not_samples=("Exiting now. Bye.",),
        ),
        _tracked("initial_run", "unexpected"),
        _tracked("rerun_disabled", "unexpected"),
        _tracked("first_rerun_not_reproducible", "not-reproducible"),
        _tracked("first_rerun_reproducible", "reproducible"),
        _tracked("second_rerun_not_reproducible", "persistent"),
        _tracked("second_rerun_reproducible", "correct"),
    ),
)
