"""Imports go one way, in no circle; only cli/ and report/ write to the terminal; `--help` loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Left to right: a module may import from its own layer and from those before it.
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "errors events diagnosis hostlist phrases untrusted worker_pool",
        "plugins signatures",
        "containers core_files discovery path_claims reading repeated_hour documents unpacked rawtext scan records envelopes timestamps ingest grid topology clocks checkpoints flightrecorder",
        "cascade",
        "attribution",
        "preflight lookup",
        "report plots graph_export graph_svg event_export line_export",
        "bundle",
        "pipeline",
        "web",
        "cli __main__",
    )
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
HEAVY = {
    "altair",
    "dateparser",
    "hyperscan",
    "networkx",
    "numpy",
    "polars",
    "pyarrow",
    "rich",
    "starlette",
    "tree_sitter",
    "uvicorn",
    "yaml",
}
PARSERS_MAY_SEE = {"correlator.errors", "correlator.events", "correlator.untrusted"}


def modules_under(root: Path, *packages: str) -> dict[str, ast.Module]:
    """Every module by its dotted name; a package's ``__init__`` has the package's name."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def imports_of(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    """The modules of ours that a module imports, wherever in it, but not those for type checkers only."""
    for_types = {id(node) for guard in ast.walk(tree) if _is_type_checking(guard) for node in ast.walk(guard)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in line {node.lineno}: write the full name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else str(node.module)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def wrong_imports(modules: Mapping[str, ast.Module]) -> list[str]:
    """Imports that run against the layers, as ``importer -> imported``."""
    wrong = []
    for name, tree in modules.items():
        for target in imports_of(tree, modules):
            if name.startswith("parsers"):
                fine = target in PARSERS_MAY_SEE or target.startswith("parsers")
            elif name == "correlator":  # the root shows the library's public names
                fine = not target.startswith("parsers")
            else:
                fine = target.startswith("correlator.") and layer_of(target) <= layer_of(name)
            if not fine:
                wrong.append(f"{name} -> {target}")
    return wrong


def layer_of(module: str) -> int:
    part = module.split(".")[1]
    assert part in LAYER, f"correlator.{part} has no layer: give it one in {Path(__file__).name}"
    return LAYER[part]


def find_cycle(modules: Mapping[str, ast.Module]) -> list[str]:
    try:
        TopologicalSorter({name: set(imports_of(tree, modules)) - {name} for name, tree in modules.items()}).prepare()
    except CycleError as fault:
        return list(fault.args[1])
    return []


def writers_to_terminal(modules: Mapping[str, ast.Module]) -> list[str]:
    found = []
    for name, tree in modules.items():
        if name.split(".")[1:2] in (["cli"], ["report"]):
            continue
        for node in ast.walk(tree):
            printed = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            stream = isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "__stdout__", "__stderr__")
            if printed or (stream and isinstance(node.value, ast.Name) and node.value.id == "sys"):
                found.append(f"{name}:{node.lineno}")
    return found


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return modules_under(ROOT, "correlator", "parsers")


def test_imports_go_one_way(modules: dict[str, ast.Module]) -> None:
    assert len(modules) > 20
    assert wrong_imports(modules) == []


def test_no_import_cycle(modules: dict[str, ast.Module]) -> None:
    assert find_cycle(modules) == []


def test_only_cli_and_report_write_to_the_terminal(modules: dict[str, ast.Module]) -> None:
    assert writers_to_terminal(modules) == []


@pytest.mark.parametrize(
    ("importer", "statement", "fine"),
    [
        ("correlator/cascade/rules.py", "from correlator.clocks import align", True),
        ("correlator/clocks.py", "from correlator.cascade.rules import x", False),
        ("correlator/clocks.py", "def f():\n    from correlator import cascade", False),
        ("correlator/clocks.py", "import parsers", False),
        ("correlator/clocks.py", "import correlator", False),
        ("parsers/mine.py", "from correlator.events import Pattern\nfrom parsers._lines import x", True),
        ("parsers/mine.py", "from correlator.clocks import align", False),
    ],
)
def test_the_check_sees_a_wrong_import(tmp_path: Path, importer: str, statement: str, fine: bool) -> None:
    for name in ("correlator/__init__", "correlator/events", "correlator/clocks", "parsers/__init__", "parsers/_lines"):
        _write(tmp_path / f"{name}.py", "")
    _write(tmp_path / "correlator/cascade/__init__.py", "")
    _write(tmp_path / "correlator/cascade/rules.py", "")
    _write(tmp_path / importer, statement)
    assert (wrong_imports(modules_under(tmp_path, "correlator", "parsers")) == []) is fine


def test_the_check_sees_a_cycle_and_a_print(tmp_path: Path) -> None:
    _write(tmp_path / "correlator/clocks.py", "import correlator.grid\nprint(1)")
    _write(tmp_path / "correlator/grid.py", "def f():\n    from correlator.clocks import x\n\nimport sys\nsys.stderr")
    found = modules_under(tmp_path, "correlator")
    assert set(find_cycle(found)) == {"correlator.clocks", "correlator.grid"}
    assert writers_to_terminal(found) == ["correlator.clocks:2", "correlator.grid:5"]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["diagnose", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom correlator.cli import main\n"
        f"assert main({arguments!r}) == 0\n"
        f"print(sorted(set(sys.modules) & {HEAVY!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
