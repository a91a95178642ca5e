"""The recipes for many machines do what they say: each is run, with stand-ins for the scheduler that it calls."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from joblogs import iterations, raises, write

from correlator.cli import main
from correlator.pipeline import diagnose

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted([*EXAMPLES.glob("*.sh"), *EXAMPLES.glob("*.sbatch")])
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

# srun: the command once a task, one after the other.
SRUN = """\
[[ $1 == --* ]] && shift
export SLURM_NTASKS=2
for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done
"""
# sbatch: what it is given, at once; an array whose first index is not 0 to the job.
SBATCH = """\
echo "$@" >> "$SUBMITTED"
while [[ $1 == --* ]]; do
    [[ $1 == --array=0-* ]] && last=${1#--array=0-}
    shift
done
if [[ -n ${last:-} ]]; then
    export SLURM_ARRAY_TASK_COUNT=$((last + 1)) SLURM_ARRAY_TASK_MIN=0
    for ((i = 0; i <= last; i++)); do SLURM_ARRAY_TASK_ID=$i bash "$@" >&2; done
else
    bash "$@" >&2
fi
echo "4242;cluster"
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    files = {f"rank_{rank}.log": iterations(4) for rank in range(4)}
    files["rank_2.log"] = [*iterations(3), *raises("ValueError: shard 12 is empty")]
    return write(tmp_path / "log s", files)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has the stand-ins and this interpreter's `correlator`."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
        "srun": SRUN,
        "sbatch": SBATCH,
        "correlator": f'exec {shlex.quote(sys.executable)} -m correlator "$@"\n',
    }.items():
        (tools / name).write_text(f"#!/bin/bash\nset -eu\n{text}")
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "SUBMITTED": str(tmp_path / "submitted")}


def run(script: str, *arguments: object, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", EXAMPLES / script, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_recipes_are_known_to_the_readme() -> None:
    told = (EXAMPLES / "README.md").read_text()
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix != ".md" and path.is_file()} == set(
        re.findall(r"`(\w+\.(?:sh|sbatch|py|yaml))`", told)
    )


@needs_bash
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_clean(script: Path) -> None:
    checks = [["bash", "-n", script]]
    if shutil.which("shellcheck"):
        checks.append(["shellcheck", script])
    for check in checks:
        done = subprocess.run(check, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_bash
def test_srun(logs: Path, tmp_path: Path, machine: dict[str, str]) -> None:
    report = run("srun.sh", logs, tmp_path / "out", env=machine)
    assert sorted(p.name for p in (tmp_path / "out/parts").iterdir()) == [f"part-{i}.parquet" for i in range(2)]
    assert "shard 12 is empty" in report
    assert "Read 4 files" in report


@needs_bash
def test_job_array(logs: Path, tmp_path: Path, machine: dict[str, str]) -> None:
    run("job_array.sh", logs, tmp_path / "out", 2, env=machine)
    array, merge = Path(machine["SUBMITTED"]).read_text().splitlines()
    assert "--array=0-1 " in array
    assert "--dependency=afterok:4242 " in merge
    assert "shard 12 is empty" in (tmp_path / "out/report.txt").read_text()
    assert diagnose(tmp_path / "out/parts").document == diagnose(logs).document


@needs_bash
@pytest.mark.parametrize(("nodes", "code"), [(4, 0), (3, 10)])
def test_preflight_before_the_start(nodes: int, code: int, tmp_path: Path, machine: dict[str, str]) -> None:
    """32 ranks start; of 24, eight nodes' worth of tensor parallelism fits, but the batch that follows does not."""
    script = (EXAMPLES / "preflight.sbatch").read_text().replace("--nodes=4", f"--nodes={nodes}")
    script = script.replace("--num-layers", "--micro-batch-size 1 --global-batch-size 128 --num-layers")
    job = tmp_path / "job.sbatch"
    job.write_text(script)
    tools = machine["PATH"].partition(os.pathsep)[0]
    for name, text in {"scontrol": "echo head", "srun": f"echo started >> {tmp_path}/started"}.items():
        (Path(tools) / name).write_text(f"#!/bin/bash\n{text}\n")
        (Path(tools) / name).chmod(0o755)
    set_by_slurm = {"SLURM_NNODES": str(nodes), "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_ID": "42"}
    done = subprocess.run(["bash", job], env={**machine, **set_by_slurm}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert (tmp_path / "started").exists() is (code == 0)


@needs_bash
def test_preflight_before_a_commit(tmp_path: Path, machine: dict[str, str]) -> None:
    yaml = pytest.importorskip("yaml")
    hook = yaml.safe_load((EXAMPLES / "pre_commit_config.yaml").read_text())["repos"][0]["hooks"][0]
    good, bad = tmp_path / "good.sbatch", tmp_path / "bad.sbatch"
    good.write_text("#SBATCH --nodes=1\ntorchrun --nproc-per-node 8 t.py\n")
    bad.write_text("#SBATCH --nodes=2\ntorchrun --nnodes 2 --rdzv-endpoint h:1 --nproc-per-node 8 t.py\n")
    assert all(re.search(hook["files"], path.name) for path in (good, bad))
    for files, code in (([good, good], 0), ([bad, good], 10), ([good, bad], 10)):
        done = subprocess.run([*shlex.split(hook["entry"]), *files], env=machine, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr


def test_kubernetes(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = pytest.importorskip("yaml")
    ingest, merge = (
        yaml.safe_load((EXAMPLES / f"kubernetes_{name}.yaml").read_text())["spec"] for name in ("ingest", "diagnose")
    )
    assert ingest["completionMode"] == "Indexed"
    logs.rename(tmp_path / "logs")
    (tmp_path / "parts").mkdir()
    for index in range(ingest["completions"]):
        assert main(_command(ingest, tmp_path, JOB_COMPLETION_INDEX=str(index))) == 0
    capsys.readouterr()
    assert main(_command(merge, tmp_path)) == 0
    assert "shard 12 is empty" in capsys.readouterr().out


def _command(job: dict[str, Any], data: Path, **variables: str) -> list[str]:
    """The arguments of the job's container as its pod would see them, with ``data`` for its volume."""
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] in {volume["name"] for volume in pod["volumes"]}
    program, *arguments = container["command"]
    assert program == "correlator"
    filled = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], argument) for argument in arguments]
    return [re.sub(rf"^{mount['mountPath']}(?=/)", str(data), argument) for argument in filled]


def test_dask_jobqueue(logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed")

    class Cluster(distributed.LocalCluster):  # type: ignore[misc, name-defined]
        def __init__(self, cores: int, processes: int, memory: str, walltime: str) -> None:
            super().__init__(
                n_workers=0,
                threads_per_worker=1,
                processes=False,
                dashboard_address=None,
                protocol="tcp://",
                host="127.0.0.1",
            )

        def scale(self, jobs: int) -> None:
            super().scale(jobs)

    stand_in = types.ModuleType("dask_jobqueue")
    stand_in.SLURMCluster = Cluster  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dask_jobqueue", stand_in)
    spec = importlib.util.spec_from_file_location("recipe", EXAMPLES / "dask_jobqueue_slurm.py")
    assert spec is not None and spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    recipe.main(str(logs), 1)
    assert capsys.readouterr().out.splitlines()[:2] == ["application: " + diagnose(logs).verdict.title, "ranks: 2"]


def test_every_command_line_in_the_readme_is_one(tmp_path: Path, logs: Path) -> None:
    told = (EXAMPLES / "README.md").read_text()
    commands = re.findall(r"^correlator .*?(?=\s*#|$)|(?<=`)correlator ingest [^`]+(?=`)", told, re.M)
    assert len(commands) == 3
    (tmp_path / "parts").mkdir()
    for command in commands:
        words = shlex.split(
            command.replace("$(hostname)", "gpu-a017").replace("/local/logs", "LOGDIR").replace("0/4", "0/1")
        )[1:]
        filled = [re.sub("^LOGDIR$", str(logs), re.sub("^parts/", f"{tmp_path}/parts/", word)) for word in words]
        assert main(filled) == 0
        for part in (tmp_path / "parts").glob("gpu-*"):
            part.unlink()
