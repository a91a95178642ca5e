"""`correlator preflight` from end to end: scripts, commands, configurations, checkpoints, forms and exit codes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from sarif_schema import read_sarif

from correlator.cli import main
from correlator.errors import UsageError
from correlator.preflight import Report, check, examine

DATA = Path(__file__).parent / "data" / "preflight"
CHECKPOINTS = Path(__file__).parents[1] / "fixtures" / "checkpoints"
Capture = pytest.CaptureFixture[str]

SBATCH = """\
#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
export CUDA_DEVICE_MAX_CONNECTIONS=1
SIZES=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint head:29500 \\
    pretrain_gpt.py "${SIZES[@]}" --num-layers 8 --hidden-size 64 --num-attention-heads 4
"""


def script(folder: Path, text: str, name: str = "job.sbatch") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def rules(report: Report) -> list[str]:
    return [finding.rule for finding in report.findings]


def of(command: str, **more: object) -> Report:
    return examine(command.split(), **more)  # type: ignore[arg-type]


def test_a_script_that_cannot_work(tmp_path: Path, capsys: Capture) -> None:
    path = script(tmp_path, SBATCH)
    assert main(["preflight", "--script", str(path)]) == 10
    out = capsys.readouterr().out
    assert "6 ranks are not divisible by TP 2 × PP 2 × CP 1 = 4: 2 are left over" in out
    assert "correlator explain world-size-not-divisible" in " ".join(out.split())
    assert f"{path}:7" in out


def test_the_same_mended(tmp_path: Path, capsys: Capture) -> None:
    path = script(tmp_path, SBATCH.replace("--nodes=3", "--nodes=4"))
    assert main(["preflight", "--script", str(path)]) == 0
    assert "Nothing found by" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted((DATA / "healthy").iterdir()), ids=lambda path: path.name)
def test_healthy_launches_have_no_finding(path: Path) -> None:
    """Re-created from the public examples of Megatron-LM, torchtitan, accelerate, DeepSpeed, Lightning and Kubeflow."""
    if path.is_dir():
        return
    report = examine(configs=[path]) if path.suffix == ".yaml" else examine(scripts=[path])
    assert rules(report) == []
    assert report.checked >= 20


def test_a_size_that_cannot_be_known_is_said_and_not_guessed(tmp_path: Path) -> None:
    path = script(tmp_path, SBATCH.replace("#SBATCH --nodes=3\n", ""))
    report = examine(scripts=[path])
    assert "world-size-divisible" not in rules(report)
    unchecked = {one.why: one.rules for one in report.not_checked}
    why = f"$SLURM_NNODES is not set in {path} (Slurm sets it in the job)"
    assert "world-size-divisible" in unchecked[why]
    # Inside the job it is known.
    inside = examine(scripts=[path], environment={"SLURM_NNODES": "3"})
    assert "world-size-divisible" in rules(inside)
    assert "world-size-divisible" in rules(examine(scripts=[path], world_size=6))


def test_options_that_may_hide_are_not_taken_as_absent(tmp_path: Path) -> None:
    command = "torchrun --nproc-per-node 6 pretrain_gpt.py --num-layers 8 --micro-batch-size 1 $EXTRA"
    report = examine(scripts=[script(tmp_path, command)])
    assert "layers-divisible" not in rules(report)
    assert any("$EXTRA is not set" in one.why and "layers-divisible" in one.rules for one in report.not_checked)


def test_sbatch_options_go_before_directives(tmp_path: Path) -> None:
    path = script(tmp_path, SBATCH)
    assert "world-size-divisible" not in rules(of(f"sbatch --nodes 4 {path}"))
    assert "world-size-divisible" in rules(of(f"sbatch {path}"))


def test_scripts_that_call_scripts_and_shells(tmp_path: Path) -> None:
    script(
        tmp_path,
        "exec python -m torch.distributed.run --nproc-per-node=$1 pretrain.py --tensor-model-parallel-size 4 --num-layers 4",
        "inner.sh",
    )
    outer = script(tmp_path, "#SBATCH --nodes=1\nsrun -l bash inner.sh 6")
    assert "world-size-divisible" in rules(examine(scripts=[outer]))
    text = script(
        tmp_path,
        '#SBATCH --nodes=2\nN=2\nsrun bash -c "torchrun --nnodes $N --nproc-per-node 8 --node-rank \\$SLURM_NODEID --master-addr localhost t.py"',
    )
    assert rules(examine(scripts=[text])) == ["rendezvous-loopback"]


def test_what_srun_does_before_the_training_is_no_launch(tmp_path: Path) -> None:
    lines = [
        "#SBATCH -N 4 --gpus-per-node=8",
        "srun --ntasks-per-node=1 nvidia-smi -L",
        "srun mkdir -p /tmp/cache",
        "srun torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint n1:29500 train.py",
    ]
    report = examine(scripts=[script(tmp_path, "\n".join(lines))])
    assert (len(report.launches), rules(report)) == (1, [])


def test_text_for_a_shell_of_which_a_part_cannot_be_known(tmp_path: Path, capsys: Capture) -> None:
    """`bash -c "$CMD"` with an address that only the job knows: the rest is checked, the address is not."""
    lines = [
        "HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
        'CMD="torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $HEAD:29500"',
        'srun -N 2 bash -c "$CMD pretrain_gpt.py --tensor-model-parallel-size 3 --num-layers 6"',
    ]
    report = examine(scripts=[script(tmp_path, "\n".join(lines))])
    assert "world-size-divisible" in rules(report)
    unchecked = {rule: one.why for one in report.not_checked for rule in one.rules}
    assert unchecked["rendezvous-address"].startswith("$(scontrol show hostnames")
    assert "CORRELATOR_UNKNOWN" not in str(report)
    quoted = script(tmp_path, "srun -N 2 bash -c \"torchrun --nnodes 2 t.py --name '$RUN_NAME'\"")
    assert main(["preflight", "--script", str(quoted)]) == 2
    error = capsys.readouterr().err
    assert "text for the shell is not known: $RUN_NAME is not set" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("srun -N 2 torchrun --nnodes 1 --nproc-per-node 8 t.py", "nodes-agree"),
        ("srun -N 2 --ntasks-per-node 8 torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint h:1 t.py", "one-launcher-a-node"),
        ("torchrun --nnodes 2 --nproc-per-node 8 t.py", "rendezvous-address"),
        ("torchrun --nnodes 2 --master-addr h --nproc-per-node 8 t.py", "node-rank-stated"),
        ("torchrun --nnodes 2 --rdzv-backend c10d --master-addr h t.py", "rendezvous-address-ignored"),
        ("env CUDA_VISIBLE_DEVICES=0 torchrun --nproc-per-node 8 t.py", "visible-gpus"),
        ("mpirun -np 8 -H a:8 -x CUDA_VISIBLE_DEVICES=0 python t.py", "visible-gpus"),
        ("python -m deepspeed.launcher.launch --master_addr= --master_port=29500 t.py", "master-address-empty"),
        ("docker run --gpus all img torchrun --nproc-per-node 8 t.py", "container-shared-memory"),
        ("srun -N 2 -n 16 env NCCL_SOCKET_IFNAME=lo python t.py", "nccl-interface-loopback"),
        ("accelerate launch --num_machines 4 --num_processes 6 t.py", "processes-over-machines"),
        ("python pretrain.py model.tensor_model_parallel_size=1 model.sequence_parallel=True", "sequence-parallel-needs-tp"),
    ],
)  # fmt: skip
def test_launches_that_fail(command: str, rule: str) -> None:
    assert rule in rules(of(command))


def test_forwarded_variables_are_unknown() -> None:
    report = of("mpirun -np 8 -H a:8 -x CUDA_VISIBLE_DEVICES python t.py")
    assert any("CUDA_VISIBLE_DEVICES is forwarded" in one.why for one in report.not_checked)


CONFIGS = {
    "ds.json": ('{\n\t"train_batch_size": 30,\n\t"train_micro_batch_size_per_gpu": 4\n}', "deepspeed-batch-equation", 2),
    "nemo.yaml": ("trainer:\n  devices: 8\n  num_nodes: 1\nmodel:\n  sequence_parallel: true\n  tensor_model_parallel_size: 1\n", "sequence-parallel-needs-tp", 5),
    "megatron.yaml": ("language_model:\n  num_layers: 5\nmodel_parallel:\n  pipeline_model_parallel_size: 2\n  tensor_model_parallel_size: 1\n", "layers-divisible", 2),
    "titan.toml": ("[job]\nx = 1\n[training]\nlocal_batch_size = 1\nseq_len = 8190\n[parallelism]\ntensor_parallel_degree = 4\n", "torchtitan-sequence", 7),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_alone(name: str, tmp_path: Path) -> None:
    text, rule, line = CONFIGS[name]
    path = script(tmp_path, text, name)
    report = examine(configs=[path], world_size=8)
    found = next(finding for finding in report.findings if finding.rule == rule)
    assert (str(path), line) in [(place.file, place.line) for place in found.places]


def test_a_configuration_that_the_launch_names(tmp_path: Path) -> None:
    script(tmp_path, '{"train_batch_size": 30}', "ds.json")
    path = script(tmp_path, "deepspeed --num_nodes 1 --num_gpus 8 t.py --deepspeed ds.json")
    assert "deepspeed-batch-divisible" in rules(examine(scripts=[path]))
    gone = script(tmp_path, "deepspeed --num_nodes 1 --num_gpus 8 t.py --deepspeed gone.json")
    report = examine(scripts=[gone])
    assert any("gone.json is not here" in one.why for one in report.not_checked)


def test_a_kubernetes_manifest(tmp_path: Path) -> None:
    text = (DATA / "healthy" / "pytorchjob.yaml").read_text()
    wrong = text.replace('"torchrun", ', '"torchrun", "--nnodes=3", ').replace(
        "mountPath: /dev/shm", "mountPath: /cache"
    )
    report = examine(configs=[script(tmp_path, wrong, "job.yaml")])
    assert set(rules(report)) == {"pods-are-nodes", "pod-shared-memory"}
    jobset = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
spec:
  replicatedJobs:
    - name: workers
      replicas: 2
      template:
        spec:
          parallelism: 2
          template:
            spec:
              containers:
                - name: t
                  command: [bash, -c, "torchrun --nnodes=3 --nproc-per-node=8 --rdzv-endpoint=h:1 --rdzv-backend=c10d t.py"]
"""
    assert "pods-are-nodes" in rules(examine(configs=[script(tmp_path, jobset, "jobset.yaml")]))


@pytest.mark.parametrize(
    ("layout", "sizes", "rule"),
    [
        ("megatron_legacy", "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2", "checkpoint-topology"),
        ("megatron_legacy", "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", None),
        ("megatron_dist", "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2", None),
    ],
)
def test_a_checkpoint_of_other_sizes(layout: str, sizes: str, rule: str | None) -> None:
    command = f"torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 {sizes}"
    found = rules(of(command, checkpoint=CHECKPOINTS / layout))
    assert ("checkpoint-topology" in found) is (rule is not None)


def test_a_tracker_that_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "iter_0000010" / "mp_rank_00").mkdir(parents=True)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("20")
    report = of("torchrun t.py", checkpoint=tmp_path)
    assert "checkpoint-tracker" in rules(report)


def test_no_room_for_the_next_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: argparse.Namespace(free=10))
    report = of("torchrun t.py", checkpoint=CHECKPOINTS / "megatron_legacy")
    assert "checkpoint-room" in rules(report)
    elsewhere = of("torchrun t.py --num-layers 2 --hidden-size 8 --save /other --save-interval 1", checkpoint=CHECKPOINTS / "megatron_legacy")  # fmt: skip
    assert "checkpoint-room" not in rules(elsewhere)


def test_the_library_takes_words_and_parsed_arguments() -> None:
    words = ["torchrun", "--nproc-per-node=6", "pretrain.py", "--num-layers=4", "--tensor-model-parallel-size=4"]
    parsed = argparse.Namespace(world_size=6, num_layers=4, tensor_model_parallel_size=4, seq_length=8, lr=None)
    for args in (words, parsed, vars(parsed)):
        assert check(args)[0].rule == "world-size-divisible"
    assert check({"world_size": 8, "num_layers": 4, "seq_length": 8}) == []


def test_json_and_sarif(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = script(tmp_path, SBATCH)
    assert main(["preflight", "--script", str(path), "--format", "json"]) == 10
    report = json.loads(capfdbinary.readouterr().out)
    assert (report["schema"], report["findings"][0]["severity"]) == ("correlator.preflight/1", "blocker")
    out = tmp_path / "out.sarif"
    assert main(["preflight", "--script", str(path), "-o", str(out)]) == 10
    run = read_sarif(out.read_bytes())["runs"][0]
    result = run["results"][0]
    assert (result["level"], result["ruleId"]) == ("error", "world-size-divisible")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 7


def test_logs_are_linted_on_request_only(tmp_path: Path, capsys: Capture) -> None:
    path = script(tmp_path, "torchrun --nproc-per-node 2 t.py")
    assert rules(examine(scripts=[path])) == []
    linted = examine(scripts=[path], lint_logs=True)
    assert {"flight-recorder-size", "torchrun-log-folder", "output-unbuffered"} <= set(rules(linted))
    assert not linted.blocked
    # The exports that it asks for are those that --emit-env prints, and they satisfy it.
    assert main(["preflight", "--emit-env"]) == 0
    exports = capsys.readouterr().out
    again = script(tmp_path, exports + "torchrun --log-dir logs --tee 3 --nproc-per-node 2 t.py")
    pwd = {"PWD": "/lustre/run"}
    assert rules(examine(scripts=[again], lint_logs=True, environment=pwd)) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to check: give --script, --config or, behind --, a launch command"),
        (["--script", "none.sh"], "cannot read none.sh: No such file or directory"),
        (["--", "ls", "-l"], "ls starts no training that preflight knows"),
        (["--config", "note.yaml"], "note.yaml is no configuration that preflight knows"),
        (["--config", "torn.yaml"], "torn.yaml is no YAML"),
        (["--config", "torn.toml"], "torn.toml is no TOML"),
        (["--config", "torn.json"], "torn.json is no JSON object"),
        (["--script", "note.yaml"], "nothing to check: no launch command was found in it"),
        (["--checkpoint", "none", "--", "torchrun", "t.py"], "no checkpoint directory at none"),
        (["--script", "note.yaml", "-o", "note.yaml"], "is one of the inputs"),
    ],
)
def test_wrong_usage(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "a: 1\n", "note.yaml")
    for name in ("torn.yaml", "torn.toml", "torn.json"):
        script(tmp_path, "{a: [\n", name)
    assert main(["preflight", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_hostile_configurations(tmp_path: Path) -> None:
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for text in (laughs, "a: &a [*a]\n", "[" * 5000, "a: !!python/object/apply:os.system [ls]\n", "{" * 3000):
        with pytest.raises(UsageError):
            examine(configs=[script(tmp_path, text, "c.yaml")])


def test_text_of_a_script_cannot_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    path = script(tmp_path, "torchrun --nnodes 2 --master-addr $'\\e[2J' t.py --x '\x1b[2J\u202e'")
    main(["preflight", "--script", str(path)])
    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)
