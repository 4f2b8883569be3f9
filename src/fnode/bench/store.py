"""Results on disk: one folder per cell, kept until its inputs or the code change."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import fnode
from fnode import io
from fnode.bench.experiment import Cell
from fnode.bench.tasks import module_of
from fnode.run_folder import RunFolder

PRESENTATION = ("cli", "report", "bench")  # rooms whose code cannot change a result, but for the tasks themselves
VALUES, ARRAYS = "result.json", "arrays.safetensors"


class Store:
    """The finished cells of a bench folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        """The folder of one cell; another version of the code or other inputs have another one."""
        text = json.dumps([code_version(cell.task), cell.key])
        return self.folder / "cells" / cell.task / hashlib.sha256(text.encode()).hexdigest()[:16]

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """The results of a finished cell, or None."""
        path = self.path(cell)
        if not (path / VALUES).is_file():
            return None
        result = json.loads((path / VALUES).read_text(encoding="utf-8"))["result"]
        return {**result, "arrays": io.read_named(path / ARRAYS)} if (path / ARRAYS).is_file() else result

    def share(self, cell: Cell) -> float | None:
        """How much of a training that is not finished was done when its state was last kept."""
        return RunFolder(self.path(cell)).share

    def save(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a result; its values are written last, and a cell without them is not finished."""
        path = self.path(cell)
        path.mkdir(parents=True, exist_ok=True)
        values = {name: value for name, value in result.items() if name != "arrays"}
        if "arrays" in result:
            io.write_named(path / ARRAYS, result["arrays"])
        io.write_text(path / VALUES, json.dumps({"inputs": cell.inputs, "result": values}, indent=2))
        RunFolder(path).tidy()


@functools.cache
def code_version(task: str) -> str:
    """A hash of the code that the results of a task depend on."""
    root = Path(fnode.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in PRESENTATION or path == module_of(task):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
