"""Results on disk: one folder per cell, kept until its inputs or the code change."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import fnode
from fnode import io
from fnode.bench.experiment import Cell

PRESENTATION = ("cli", "report", "bench")  # rooms whose code cannot change a result, but for the experiments themselves


class Store:
    """The finished cells of a bench folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, experiment: str, cell: Cell) -> Path:
        """The folder of one cell; another version of the code or other inputs have another one."""
        text = json.dumps([code_version(experiment), cell.inputs], sort_keys=True)
        return self.folder / "cells" / experiment / hashlib.sha256(text.encode()).hexdigest()[:16]

    def load(self, experiment: str, cell: Cell) -> dict[str, Any] | None:
        """The results of a finished cell, or None."""
        path = self.path(experiment, cell) / "result.json"
        return json.loads(path.read_text(encoding="utf-8"))["result"] if path.is_file() else None

    def save(self, experiment: str, cell: Cell, result: dict[str, Any]) -> None:
        folder = self.path(experiment, cell)
        folder.mkdir(parents=True, exist_ok=True)
        io.write_text(folder / "result.json", json.dumps({"inputs": cell.inputs, "result": result}, indent=2))


@functools.cache
def code_version(experiment: str) -> str:
    """A hash of the code that an experiment's results depend on."""
    root = Path(fnode.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        room = path.relative_to(root).parts[0]
        if room not in PRESENTATION or path.stem == experiment:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
