"""The layout is the architecture: imports point down only, and every side effect has one home."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fnode

ROOT = Path(fnode.__file__).parent
LAYERS = [
    {"errors"},
    {"trajectory"},
    {"recording", "field", "signals"},
    {"derivatives", "solvers", "metrics"},
    {"io"},
    {"constraints"},
    {"mechanisms"},
    {"systems"},
    {"models"},
    {"training", "analysis", "control"},
    {"scale"},
    {"config"},
    {"recipes", "methods", "structures"},
    {"model", "selection"},
    {"streaming"},
    {"preparation"},
    {"learn"},
    {"scores"},
    {"run_folder", "report"},
    {"bench"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))
SIDE_EFFECTS = {
    r"(?<![\w.])print\(": {"cli"},
    r"sys\.exit": {"cli"},
    r"jax\.config": {"cli"},
    r"plotly|matplotlib": {"report", "bench"},
    r"savez\(|save_file\(|write_parquet\(|write_bytes\(|mkstemp\(": {"io"},
    r"pickle\.|(?<![\w.])eval\(|(?<![\w.])exec\(": set(),
}


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path):
    """The rooms of the package that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fnode":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path):
    here = room(path)
    assert here in RANK, f"{here} has no layer"
    for other in imported(path):
        assert other == here or RANK[other] < RANK[here], f"{here} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_side_effects_stay_in_their_rooms(path):
    code = ast.unparse(ast.parse(path.read_text()))
    for effect, homes in SIDE_EFFECTS.items():
        assert room(path) in homes or not re.search(effect, code), f"{effect} in {path.name}"


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
def test_benchmarks_import_what_there_is(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fnode"):
            module = importlib.import_module(str(node.module))
            assert not [alias.name for alias in node.names if not hasattr(module, alias.name)]


def test_nothing_happens_on_import():
    """Importing the library must not choose a precision for its user."""
    check = "import jax, fnode; assert not jax.config.jax_enable_x64"
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    assert subprocess.run([sys.executable, "-c", check], env=environment, check=False).returncode == 0
