"""Step lines, clean ends and orderly stops of training loops other than Megatron's.

Emitted by (versions checked): Hugging Face Trainer 4.x and 5.x, ms-swift, LLaMA-Factory; DeepSpeed 0.5 to 0.19 and its
pipeline engine; torchtitan; torchtune; OLMo and OLMo-core; Composer; nanotron; MaxText; NeMo 2; fairseq and metaseq;
mmengine; detectron2; torchvision's, DETR's and timm's reference loops; PyTorch's examples; Keras; and the plain forms
of private loops. Says nothing about blame: a step line is a sign of life, usually of one rank only. ``step`` is what
the line counts; where it starts anew with every epoch, ``epoch`` stands beside it. ``mark`` tells the lines before and
after the work of one step apart.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern, Severity
from parsers._bars import BARS
from parsers._plain_steps import PLAIN

_NUMBER = r"[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|NaN|NAN|inf|Inf)"


def _progress(literals: tuple[str, ...], regex: str, sample: str, *refused: str) -> Pattern:
    return Pattern(
        event="trainer.progress",
        literals=literals,
        regex=regex,
        severity="info",
        sparse=True,
        sample=sample,
        not_samples=refused,
    )


def _ending(
    event: str,
    literals: tuple[str, ...],
    regex: str,
    sample: str,
    *refused: str,
    severity: Severity = "info",
    **fields: str,
) -> Pattern:
    return Pattern(
        event=f"trainer.{event}",
        literals=literals,
        regex=regex,
        severity=severity,
        fields=dict(fields),
        sample=sample,
        not_samples=refused,
    )


_FRAMEWORKS = (
    # the dict that Trainer prints: a step only in ms-swift's, everywhere the epoch as a fraction
    _progress(
        ("'loss': ",),
        rf"\{{.*?'loss': '?(?P<loss>{_NUMBER})'?(?:.*?'grad_norm': '?(?P<grad_norm>{_NUMBER}))?"
        rf"(?:.*?'epoch': '?(?P<epoch>[\d.]+))?(?:.*?'global_step/max_steps': '(?P<step>\d+)/(?P<total>\d+)')?",
        "{'loss': 1.2345, 'grad_norm': 0.5386, 'learning_rate': 7e-06, 'epoch': 0.12}",
    ),
    # DeepSpeed: engine, throughput timer, pipeline engine
    _progress(
        (", skipped=",),
        r"\bstep=(?P<step>\d+), skipped=(?P<skipped>\d+), lr=",
        "[Rank 0] step=1200, skipped=3, lr=[0.00015], mom=[(0.9, 0.95)]",
    ),
    _progress(
        ("/global_step=",),
        r"epoch=(?P<epoch>\d+)/micro_step=\d+/global_step=(?P<step>\d+)",
        "epoch=0/micro_step=4800/global_step=1200, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.4",
    ),
    _progress(
        ("iter time (s):",),
        rf"steps: (?P<step>\d+) loss: (?P<loss>{_NUMBER}) iter time \(s\):",
        "steps: 1200 loss: 2.3456 iter time (s): 3.999 samples/sec: 8.100",
    ),
    # torchtitan: every field in a colour of its own, so the literal stays inside one of them
    _progress(
        ("tps: ", "wps: "),
        rf"\bstep: +(?P<step>\d+)\s+loss: +(?P<loss>{_NUMBER})(?:.*?grad_norm: +(?P<grad_norm>{_NUMBER}))?.*\b[tw]ps: ",
        "step: 1200  loss:  7.12345  grad_norm:  0.4120  memory: 45.12GiB(47.50%)  tps: 3,456  tflops: 123.45  mfu: "
        "40.12%",
    ),
    _progress(  # OLMo
        ("[step=",),
        r"\[step=(?P<step>\d+)(?:/(?P<total>\d+))?",
        "[step=1200/739328,epoch=0]",
    ),
    _progress(  # Composer's console logger; the values stand on the following lines
        ("[batch=", "[token=", "[sample="),
        r"(?:\[epoch=(?P<epoch>\d+)\])?\[(?P<unit>batch|token|sample)=(?P<step>\d+)(?:/(?P<total>\d+))?\]:?",
        "[epoch=1][batch=1200/4800]:",
        "[Eval batch=12/100] Eval on c4 data",
    ),
    _progress(  # nanotron
        ("| consumed_tokens: ",),
        rf"iteration: (?P<step>\d+) / (?P<total>\d+) \|(?:.*?\blm_loss: (?P<loss>{_NUMBER}))?",
        "iteration: 1200 / 5000 | consumed_tokens: 629M | elapsed_time_per_iteration_ms: 1.2K | lm_loss: 2.34",
    ),
    _progress(  # MaxText
        ("completed step: ",),
        rf"completed step: (?P<step>\d+), seconds: (?P<seconds>[\d.]+)(?:.*?, loss: (?P<loss>{_NUMBER}))?",
        "completed step: 1200, seconds: 3.512, TFLOP/s/device: 120.4, Tokens/s/device: 2331.5, total_weights: 65536, "
        "loss: 2.345",
    ),
    _progress(  # NeMo 2
        ("reduced_train_loss: ",),
        rf"(?:Training epoch (?P<epoch>\d+), )?iteration (?P<iteration>\d+)/(?P<total>\d+).*?global_step: "
        rf"(?P<step>\d+).*?reduced_train_loss: (?P<loss>{_NUMBER})",
        "Training epoch 0, iteration 1199/4999 | lr: 1e-05 | global_batch_size: 512 | global_step: 1199 | "
        "reduced_train_loss: 2.345 | train_step_timing in s: 10.2",
    ),
    _progress(  # fairseq, metaseq: JSON or plain
        ("num_updates",),
        r"\bnum_updates(?:\": \"|=)(?P<step>\d+)",
        "train_inner | epoch 001:   1200 / 5000 loss=3.214, ppl=9.28, num_updates=1200, lr=0.0001",
    ),
    _progress(  # mmengine, mmcv
        ("Epoch(train)", "Iter(train)", "Epoch [", "Iter ["),
        r"(?:Epoch(?:\(train\))?\s+\[(?P<epoch>\d+)\]\s*|Iter(?:\(train\))?\s+)\[\s*(?P<step>\d+)/\s*"
        r"(?P<total>\d+)\]",
        "Epoch(train)   [1][  50/1000]  lr: 1.0e-04  eta: 1:00:00  time: 0.51  loss: 2.3456",
    ),
    _progress(  # detectron2
        ("total_loss: ",),
        rf"\biter: (?P<step>\d+)\s+total_loss: (?P<loss>{_NUMBER})",
        "eta: 1:00:00  iter: 1199  total_loss: 2.345  loss_cls: 0.4  time: 0.5120  data_time: 0.0031  lr: 0.0002",
    ),
    _progress(  # torchvision, DETR; PyTorch's ImageNet example
        ("Epoch: [",),
        rf"Epoch: \[(?P<epoch>\d+)\]\s*\[\s*(?P<step>\d+)/\s*(?P<total>\d+)\](?:.*?\bloss:? +(?P<loss>{_NUMBER}))?",
        "Epoch: [41]  [ 120/1251]  eta: 0:09:07  lr: 0.000712  loss: 3.2880 (3.2000)  time: 0.421  data: 0.0003",
    ),
    _progress(  # PyTorch's MNIST example, timm
        ("Train Epoch: ", "Train: "),
        r"Train(?: Epoch)?: (?P<epoch>\d+) \[\s*(?P<step>\d+)/(?P<total>\d+)",
        "Train Epoch: 1 [6016/60000 (10%)]\tLoss: 1.276100",
    ),
    _progress(  # Keras
        (" - loss: ", "- ETA: "),
        rf"^\s*(?P<step>\d+)/(?P<total>\d+) (?:\[[=>.]+\]|\S+ )(?:.*?- loss: (?P<loss>{_NUMBER}))?",
        "120/500 [======>.......................] - ETA: 10s - loss: 2.3456 - accuracy: 0.4123",
    ),
    _progress(  # TensorFlow's estimators and monitored sessions
        (", step = ",),
        rf"\bloss = (?P<loss>{_NUMBER}), step = (?P<step>\d+)",
        "loss = 2.3456, step = 1200 (12.345 sec)",
    ),
    _progress(  # clu, the writer of flax's loops; the module's name stands in the head
        ("logging_writer.py",),
        rf"^\[(?P<step>\d+)\] (?:.*?\b\w*loss=(?P<loss>{_NUMBER}))?",
        "[1200] learning_rate=0.0003, loss=2.3456  (logging_writer.py)",
    ),
    _progress(  # verl
        (" - global_seqlen/", " - actor/"),
        r"\bstep:(?P<step>\d+) - ",
        "step:12 - global_seqlen/min:1024.0 - global_seqlen/max:4096.0 - actor/entropy:0.41",
    ),
    _progress(  # Ray Train, Ray Tune
        ("Training finished iteration ",),
        r"Training finished iteration (?P<step>\d+) at",
        "Training finished iteration 12 at 2024-05-01 07:40:18. Total running time: 12min 3s",
    ),
)

_EVALUATION = Pattern(
    event="trainer.evaluation",
    literals=("valuating ", "unning evaluation", "unning Evaluation"),
    regex=r"(?:^\W*(?:rank \d+\W+)?[Ee]valuating (?:on |at |model|iter)|\*+ Running [Ee]valuation \*+|^\W*Running "
    r"evaluation for)",
    severity="info",
    sparse=True,
    sample="***** Running Evaluation *****",
)

_COMPLETED = (
    _ending(  # Megatron; it leaves by another way after a signal, a time limit or a rerun verdict
        "completed",
        ("after training is done",),
        r"^\W*after training is done\W",
        "[after training is done] datetime: 2024-05-01 07:40:18 ",
    ),
    _ending(
        "completed",
        ("'train_runtime': ",),
        r"\{'train_runtime': '?(?P<seconds>[\d.]+)",
        "{'train_runtime': 1234.5, 'train_samples_per_second': 12.3, 'train_loss': 1.23, 'epoch': 3.0}",
    ),
    _ending(  # torchvision's and DETR's reference loops, as their last line
        "completed",
        ("Training time ",),
        r"^\W*Training time (?P<duration>(?:\d+ days?, )?\d+:\d\d:\d\d)\s*$",
        "Training time 1:23:45",
        "Training time 12 ms per step",
    ),
    _ending(  # the YOLO family
        "completed",
        (" epochs completed in ",),
        r"^\W*(?P<epochs>\d+) epochs completed in [\d.]+ hours",
        "300 epochs completed in 12.345 hours.",
    ),
    _ending("completed", ("***** train metrics *****",), r"\*{5} train metrics \*{5}", "***** train metrics *****"),
    _ending(
        "completed",
        ("`Trainer.fit` stopped: `max_",),
        r"`Trainer\.fit` stopped: `max_(?:steps|epochs)=(?P<limit>\d+)` reached",
        "`Trainer.fit` stopped: `max_steps=1200` reached.",
        "`Trainer.fit` stopped: No training batches.",
    ),
    _ending(  # fairseq
        "completed",
        (">= max_update: ", "> max_epoch"),
        r"Stopping training due to num_updates: (?P<step>\d+) >= max_update",
        "Stopping training due to num_updates: 1200 >= max_update: 1200",
    ),
    _ending(
        "completed", ("Job completed successfully",), r"^\W*Job completed successfully", "Job completed successfully"
    ),
    _ending(  # nccl-tests and rccl-tests; it is not printed where a call failed
        "completed",
        ("# Avg bus bandwidth",),
        r"# Avg bus bandwidth {1,8}: (?P<bandwidth>[\d.]+)",
        "# Avg bus bandwidth    : 18.2112",
        "#   Avg bus bandwidth is the mean over all sizes",
    ),
    _ending(  # Composer's launcher, with --verbose
        "completed",
        (" finished successfully.",),
        r"^\W*Rank (?P<rank>\d+) finished successfully\.",
        "Rank 3 finished successfully.",
    ),
    # "Training completed", "training done, exit 0", "Finished training.": as a statement, not inside a sentence
    _ending(
        "completed",
        ("raining complete", "raining done", "raining finished", "raining is ", "raining has ", "raining ended"),
        r"(?:^|[|:\]>] |- )\W*(?i:(?:pre-?|fine-?)?training (?:is |has )?(?:now )?(?:done|completed?|finished|ended)"
        r"(?: successfully)?)(?:[.!,;]|\W*$| (?:in|after|at|with) )",
        "Training completed. Do not forget to share your model on huggingface.co/models =)",
        "Waiting until training is done.",
        "training done: False",
        "Training epoch complete",
    ),
    _ending(
        "completed",
        ("one training", "inished training", "inished Training", "ompleted training"),
        r"(?:^|[|:\]>] |- )\W*(?i:done|finished|completed) (?i:(?:pre|fine-?)?training)(?:[.!,;]|\W*$| "
        r"(?:in|after|at) )",
        "done training in 1234.5 seconds",
        "Finished training epoch 3",
    ),
)

_STOPPED = (
    _ending(
        "stopped",
        ("kill-switch", "kill switch", "killswitch", "Kill switch", "KILL_SWITCH"),
        r"(?i:kill[-_ "
        r"]?switch).*(?i:exit|stop|terminat|abort)|(?i:stop|exit|terminat|detected|found)\w*.*(?i:kill[-_ ]?switch)",
        "** The job was requested to stop via the kill-switch file, exiting **",
        "kill_switch_path ................................ None",
        reason="kill switch",
    ),
    _ending(  # OLMo, OLMo-core
        "stopped",
        ("Run canceled",),
        r"^\W*Run canceled(?: from (?:rank (?P<rank>\d+)|all ranks)\. Reason: (?P<reason>.*)| due to (?P<cause>.*)|$)",
        "Run canceled from rank 0. Reason: SIGTERM received",
    ),
    _ending(
        "stopped",
        ("Handling auto-requeue signal",),
        r"Handling auto-requeue signal: (?P<signal>\d+)",
        "Handling auto-requeue signal: 10",
        reason="requeue",
    ),
    _ending(
        "stopped",
        ("equeing job", "equeueing job", "equeued SLURM job", "Requeued job ", "equeuing job"),
        r"(?:[Rr]eque(?:ing|ueing|uing|ued)) (?:SLURM )?job:? (?P<job>[\d_-]+)",
        "requeing job 123...",
        reason="requeue",
    ),
    _ending(
        "stopped",
        ("Signaling Trainer to stop",),
        r"(?P<reason>Time limit reached|Monitored metric|Monitor metric|Stopping threshold)?.*Signaling Trainer to "
        r"stop",
        "Time limit reached. Elapsed time is 4:00:00. Signaling Trainer to stop.",
    ),
    _ending(
        "stopped",
        ("attempting graceful shutdown",),
        r"Detected KeyboardInterrupt, attempting graceful shutdown",
        "Detected KeyboardInterrupt, attempting graceful shutdown ...",
        reason="interrupt",
    ),
    _ending(
        "stopped",
        ("this job is timed-out", "this job is preempted"),
        r"Caught signal (?P<signal_name>\w+) on \S+: this job is (?P<reason>timed-out|preempted)",
        "Caught signal SIGUSR1 on gpu-a017: this job is timed-out.",
    ),
    _ending(
        "stopped",
        ("reemption detected", "reemption notice", "reemption signal", "eceived preemption", "eceived a preemption"),
        r"(?:^|[:\]|>] ?)\W*(?i:preemption (?:detected|(?:notice|signal) received))|(?i:received (?:a )?preemption)",
        "Preemption detected, saving checkpoint and exiting",
        "No preemption signal handler is installed",
        reason="preempted",
    ),
    # any loop that announces what it will do about a signal; a signal alone is no orderly stop
    _ending(
        "stopped",
        ("eceived SIG", "aught SIG", "Got SIG", "got SIG", "eceived signal", "aught signal", "ot signal"),
        r"(?i:received|caught|got) (?i:signal "
        r")?(?P<reason>SIG[A-Z0-9]+|\d+)\b(?:\W+\w+){0,6}?\W+(?i:sav(?:e|ing)|checkpoint\w*|"
        r"requeu\w*|graceful\w*)",
        "Received SIGTERM, saving checkpoint and exiting",
        "Received SIGTERM: 15",
    ),
)

_OTHER = (
    Pattern(
        event="trainer.signal",
        literals=("Bypassing signal", "Bypassing SIGTERM"),
        regex=r"Bypassing (?:signal |SIGTERM: )(?P<signal>\d+)",
        severity="info",
        sample="Bypassing signal 15",
    ),
    Pattern(
        event="trainer.from_scratch",
        literals=(
            "this is a fresh start",
            "raining from scratch",
            "rain from scratch",
            "No previous autoresume checkpoint",
            "No existing checkpoints found",
        ),
        regex=r"this is a fresh start|(?i:train(?:ing)? from scratch)|No previous autoresume checkpoint found|No "
        r"existing "
        r"checkpoints found",
        severity="info",
        sample="No checkpoint was provided, this is a fresh start.",
    ),
    Pattern(  # submitit states where its process runs
        event="trainer.environment",
        literals=("JobEnvironment(job_id=",),
        regex=r"JobEnvironment\(job_id=(?P<job>\w+), hostname=(?P<node>[\w.-]+), local_rank=(?P<local_rank>\d+)\("
        r"(?P<nproc_per_node>\d+)\), node=(?P<node_rank>\d+)\((?P<nnodes>\d+)\), global_rank=(?P<rank>\d+)\("
        r"(?P<world_size>\d+)\)\)",
        severity="info",
        sample="Starting with JobEnvironment(job_id=123, hostname=gpu-a017, local_rank=1(8), node=0(2), "
        "global_rank=1(16))",
    ),
)

PARSER = Parser(
    name="trainers",
    patterns=(*BARS, *_FRAMEWORKS, *_COMPLETED, *_STOPPED, *_OTHER, _EVALUATION, *PLAIN),
)
