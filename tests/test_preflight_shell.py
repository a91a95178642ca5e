"""Scripts are read and never run: what can be known of them, and that the rest is said to be unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.preflight.expansion import words_of
from correlator.preflight.launch import Launch, take_apart
from correlator.preflight.model import Place, Unknown, Word, together
from correlator.preflight.shell import Command, Script, read_script


def read(text: str, *arguments: str, **given: str) -> Script:
    return read_script(text.encode(), "job.sh", {k: Word((v,)) for k, v in given.items()}, words_of(arguments))


def last(text: str, *arguments: str, **given: str) -> list[str | None]:
    """The words of the last command; None for one that is not wholly known."""
    return [word.text for word in read(text, *arguments, **given).commands[-1].words]


def why(text: str) -> str:
    unknown = next(word.unknown for word in read(text).commands[-1].words if word.unknown)
    assert unknown is not None
    return unknown.why


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("N=4\nrun --n $N", ["run", "--n", "4"]),
        ("N=4\nrun --n=${N}x", ["run", "--n=4x"]),
        ("run --a \\\n  1 'b c' \"d e\"", ["run", "--a", "1", "b c", "d e"]),
        ("A=(--x 1 'two words')\nA+=(--y)\nrun \"${A[@]}\"", ["run", "--x", "1", "two words", "--y"]),
        ("A=(a b c)\nrun ${A[1]} ${#A[@]} $A", ["run", "b", "3", "a"]),
        ('O="--x 1"\nO="$O --y 2"\nrun $O', ["run", "--x", "1", "--y", "2"]),
        ('O="--x 1"\nO+=" --y"\nrun "$O"', ["run", "--x 1 --y"]),
        ("run ${N:-8} ${M-7} ${K:=6} $K", ["run", "8", "7", "6", "6"]),
        ("N=''\nrun x${N:-8} y${N-8}", ["run", "x8", "y"]),
        ("N=2\nrun ${N:+--n} ${M:+--m}", ["run", "--n"]),
        ("A=2 B=3\nrun $((A * (B + 1) - 7 / 2 % 2))", ["run", "7"]),
        ("f() { run $1 $2; }\nf a b", ["run", "a", "b"]),
        ("N=1\n(N=2)\nrun $N", ["run", "1"]),
        ("if [ $X ]; then N=1; else N=1; fi\nrun $N", ["run", "1"]),
        ("N=1\n[ -z $X ] && M=2\nrun $N", ["run", "1"]),
        ("export N=1 M=2\nunset M\nrun $N", ["run", "1"]),
        ("run a\\ b 'it'\\''s'", ["run", "a b", "it's"]),
    ],
)
def test_what_can_be_known(script: str, words: list[str]) -> None:
    assert last(script) == words


def test_arguments_of_the_script() -> None:
    assert last('run "$@" $# ${1:-x} ${3:-x}', "a", "b c") == ["run", "a", "b c", "2", "a", "x"]
    assert last("shift\nrun $1", "a", "b") == ["run", "b"]
    assert last("set -- p q\nrun $2") == ["run", "q"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("run $(hostname)", "$(hostname) is not run"),
        ("run `hostname`", "`hostname` is not run"),
        ("N=$(nproc)\nrun --n=$N", "$(nproc) is not run"),
        ("run $N", "$N is not set in job.sh"),
        ("run $SLURM_NNODES", "$SLURM_NNODES is not set in job.sh (Slurm sets it in the job)"),
        ("run $1", "$1: no such argument is given to job.sh"),
        ("N=1\nif [ $X ]; then N=2; fi\nrun $N", "$N depends on the branch of line 2"),
        ("case $X in a) N=1;; *) N=2;; esac\nrun $N", "$N depends on the branch of line 1"),
        ("[ -z $X ] && N=2\nrun $N", "$N depends on the branch of line 1"),
        ("N=1\nfor i in a b; do N=2; done\nrun $N", "$N depends on the branch of line 2"),
        ("for i in 1 2; do run $i; done", "$i changes in the loop of line 1"),
        ("run ${N%%.*}", "${N%%.*} is not followed"),
        ("run $((N * 2))", "$N is not set in job.sh"),
        ("A[1]=x\nrun ${A[1]}", "elements of A are set one by one"),
        ("read N\nrun $N", "$N is read from a stream"),
        ("run $RANDOM", "$RANDOM is a random number"),
    ],
)
def test_what_cannot_be_known_is_unknown(script: str, reason: str) -> None:
    assert why(script) == reason


def test_an_unquoted_unknown_may_be_any_number_of_words() -> None:
    quoted, bare = read('run "$X" $X').commands[-1].words[1:]
    assert (quoted.many, bare.many) == (False, True)


@pytest.mark.parametrize(
    ("script", "many"),
    [
        ("for lr in 1e-4 3e-4; do run --lr $lr; done", False),
        ("for lr in 1e-4 $MORE; do run --lr $lr; done", True),
        ("for names in 'a b' c; do run --names $names; done", True),
        ("if [ $X ]; then N=1; else N=8; fi\nrun --n $N", False),
        ("N=1\nif [ $X ]; then N=; fi\nrun --n $N", True),
        ("if [ $X ]; then N=1; fi\nrun --n $N", True),
    ],
)
def test_an_unknown_of_which_every_value_is_one_word_is_one_word(script: str, many: bool) -> None:
    """So that a sweep over learning rates hides no option behind the variable."""
    last_word = read(script).commands[-1].words[-1]
    assert last_word.unknown is not None and last_word.many is many


def test_each_reason_is_told_once() -> None:
    first, both = Unknown("$A is not set"), Unknown("$A is not set; $B is not set")
    assert together([first, both, 3, both]) == Unknown("$A is not set; $B is not set")
    assert together([1, "x"]) is None


def test_a_branch_leaves_the_options_that_may_be_given() -> None:
    word = read("A=()\nif [ $X ]; then A+=(--fp8 --lr=1); fi\nrun ${A[@]}").commands[-1].words[1]
    assert isinstance(word.pieces[0], Unknown)
    assert word.pieces[0].options == ("--fp8", "--lr")


def test_environment_output_and_heredoc() -> None:
    script = read('A=1\nexport B=2\nC=3 run x 2>&1 | tee out.log\ncat > c.json <<E\n{"n": $A}\nE\nD=4 run > $B.log')
    run = script.commands[0]
    assert ({k: w.text for k, w in run.environment.items()}, run.piped) == ({"B": "2", "C": "3"}, True)
    assert [word.text for word in run.files] == ["out.log"]
    assert script.written["c.json"][0].text == '{"n": 1}\n'
    assert [word.text for word in script.commands[-1].files] == ["2.log"]


def test_directives_end_at_the_first_command() -> None:
    script = read("#!/bin/bash\n#SBATCH --nodes=4\n# a remark\n\n#SBATCH -t 1:00\nrun\n#SBATCH --nodes=8\n")
    assert [(text, place.line) for text, place in script.directives] == [("--nodes=4", 2), ("-t 1:00", 5)]


def test_broken_and_hostile_scripts_are_read_as_far_as_possible() -> None:
    script = read("N=4\nif then fi ((\nrun $N")
    assert "is not understood as Bash" in script.notes[0]
    assert read("f() {" + "f; " * 50 + "}\nf").commands == []
    doubled = "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 40 + "run $A"
    assert why(doubled) == "a word too long to be followed"
    assert last("(" * 200 + "run" + ")" * 200 + "\nrun 2") == ["run", "2"]
    assert read_script(b"run \xff\xfe\x00\n", "job.sh", {}).commands[-1].words[0].text == "run"


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    read(
        f"touch {mark}\nN=$(touch {mark})\nrun `touch {mark}` ${{N:-$(touch {mark})}} $((`touch {mark}`))\neval touch {mark}"
    )
    assert not mark.exists()


def launch(command: str) -> Launch:
    found = take_apart(Command(read(command).commands[-1].words, {}, Place("job.sh", 1)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("command", "layers", "program", "arguments"),
    [
        ("torchrun --nproc_per_node=8 t.py --lr 1", ["torchrun"], "t.py", ["--lr", "1"]),
        ("torchrun --standalone --nproc-per-node 8 -m pkg.train x", ["torchrun"], "pkg.train", ["x"]),
        ("python -m torch.distributed.run --nnodes 2 t.py", ["python", "torchrun"], "t.py", []),
        ("python3 -u t.py -x", ["python"], "t.py", ["-x"]),
        ("srun -N4 --ntasks-per-node 8 --exclusive python t.py", ["srun", "python"], "t.py", []),
        ("srun -l apptainer exec --nv i.sif bash -c 'x'", ["srun"], None, []),
        ("srun --mpi=pmix numactl -m 0 torchrun t.py", ["srun", "torchrun"], "t.py", []),
        ("time env A=1 accelerate launch --multi_gpu --num_processes 4 t.py", ["accelerate"], "t.py", []),
        (
            "deepspeed --num_gpus 8 --master_port=1 t.py --deepspeed c.json",
            ["deepspeed"],
            "t.py",
            ["--deepspeed", "c.json"],
        ),
        ("mpirun -np 8 -H a:4,b:4 -mca btl tcp -x A -bind-to none python t.py", ["mpirun", "python"], "t.py", []),
        ("/opt/bin/mpiexec -n 2 ./prog x", ["mpirun"], "./prog", ["x"]),
        ('"$VENV"/bin/torchrun t.py', ["torchrun"], "t.py", []),
    ],
)
def test_a_command_is_taken_apart(command: str, layers: list[str], program: str | None, arguments: list[str]) -> None:
    found = launch(command)
    assert [layer.name for layer in found.layers] == layers
    assert (found.program.text if found.program else None, [w.text for w in found.arguments]) == (program, arguments)


def test_values_of_launcher_options() -> None:
    found = launch("srun -n 8 -N2 --label --output=x mpirun --allow-run-as-root -mca a b -np 4 python t.py")
    assert {k: v.text if v else None for k, v in found.layers[0].options.items()} == {
        "ntasks": "8", "nodes": "2", "label": None, "output": "x",
    }  # fmt: skip
    mpirun = found.layer("mpirun")
    assert mpirun is not None and mpirun.options["np"] == Word(("4",))


@pytest.mark.parametrize("command", ["ls -l", "accelerate config", "echo torchrun t.py"])
def test_other_commands_are_no_launch(command: str) -> None:
    assert take_apart(Command(read(command).commands[-1].words, {}, Place("job.sh", 1))) is None
