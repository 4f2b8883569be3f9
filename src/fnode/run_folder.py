"""A run on disk: what `learn` leaves behind, what `--resume` picks up, what other commands read."""

import io as memory
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import polars

from fnode import io
from fnode.config import Config, read_config, validated
from fnode.errors import InputError
from fnode.learn import Run, Trained, Watch, completed
from fnode.model import MODEL_FILES
from fnode.scores import scores
from fnode.training import Progress
from fnode.trajectory import Trajectory

CONFIG, SCORES, PREDICTION, HISTORY, LOG, REPORT = (
    "config.toml",
    "scores.json",
    "prediction.csv",
    "history.csv",
    "run.log",
    "report.html",
)
MODEL = "model"  # the run that `fnode control` trains for itself, a folder of its own
CHECKPOINT_SECONDS = float(os.environ.get("FNODE_CHECKPOINT_SECONDS", "5"))


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | Path, checkpoint_seconds: float = CHECKPOINT_SECONDS):
        self.path, self.checkpoint_seconds = Path(path), checkpoint_seconds
        self._last_checkpoint = time.monotonic()

    @property
    def finished(self) -> bool:
        return (self.path / SCORES).is_file() and (self.path / REPORT).is_file()

    def check(self, *, force: bool, resume: bool) -> None:
        """An error if the folder cannot be ours; nothing is touched."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: choose another folder for the run")
        if self._occupied and not (force or resume):
            raise InputError(f"{self.path} exists: use --resume to go on with it, --force to replace it, or another -o")
        if self._occupied and force and not resume:
            foreign = [entry.name for entry in self.path.iterdir() if not _written_by_a_run(entry.name)]
            if foreign:
                raise InputError(
                    f"{self.path} holds '{foreign[0]}', which no run wrote: move it, --force will not delete it"
                )
            if (self.path / MODEL).exists():
                RunFolder(self.path / MODEL).check(force=force, resume=resume)
        above = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if not os.access(above, os.W_OK):
            raise InputError(f"cannot write {self.path}: the folder {above} is read-only")

    def empty(self, *, force: bool, resume: bool) -> None:
        """Make the folder; an earlier run in it stays if resumed and is removed if forced."""
        self.check(force=force, resume=resume)
        if self._occupied and not resume:
            shutil.rmtree(self.path)
        self.path.mkdir(parents=True, exist_ok=True)

    def claim(self, config: Config, *, force: bool, resume: bool) -> None:
        """Make the folder ours; an earlier run in it goes on if resumed and is removed if forced."""
        self.empty(force=force, resume=resume)
        stored = self.path / CONFIG
        if resume and stored.is_file() and validated(read_config(stored), str(stored)) != config:
            raise InputError(
                f"{stored} holds another configuration: give the command that began this run, or --force to start anew"
            )
        io.write_text(stored, config.to_toml())

    def log(self, line: str) -> None:
        """Add a line, with the time of day, to the log."""
        with (self.path / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")

    def checkpoint(self, start: int, progress: Progress, *, now: bool = False) -> None:
        """Keep the state of training, every few seconds."""
        if now or time.monotonic() - self._last_checkpoint > self.checkpoint_seconds:
            io.write_arrays(self._checkpoint_path(start), progress)
            self._last_checkpoint = time.monotonic()

    def resume_from(self, start: int, fresh: Progress) -> Progress | None:
        """The last state of training that was kept, if any."""
        path = self._checkpoint_path(start)
        if not path.is_file():
            return None
        progress, _ = io.read_arrays(path, fresh)
        self.log(f"start {start}: goes on after epoch {int(progress.epoch)}")
        return progress

    @property
    def share(self) -> float | None:
        """How much of the training was done when its state was last kept; none before that."""
        path = self._checkpoint_path(0)
        if not path.is_file():
            return None
        kept = io.read_named(path, ("epoch", "history"))
        return float(kept["epoch"]) / kept["history"].shape[1]

    def watch(self, report=lambda start, progress: None, note=lambda start, line: None, *, resume: bool) -> Watch:
        """What `learn` tells the folder, and asks it."""

        def noted(start: int, line: str):
            self.log(f"start {start}: {line}")
            note(start, line)

        def told(start: int, progress: Progress):
            done = int(progress.epoch) == progress.history.shape[1] or bool(np.any(np.asarray(progress.failed) >= 0))
            self.checkpoint(start, progress, now=done)
            report(start, progress)

        return Watch(report=told, note=noted, resume_from=self.resume_from if resume else lambda start, fresh: None)

    def write(self, run: Run) -> dict:
        """All results of a finished run; returns its scores."""
        figures = scores(run)
        chosen, seed = run.chosen
        run.model.save(self.path)
        names = [recording.name for recording in chosen.recordings]
        motions = {name: _as_far_as_it_goes(run, chosen, number, seed) for number, name in enumerate(names)}
        io.write(self.path / PREDICTION, motions)
        io.write_text(self.path / HISTORY, _history(run))
        io.write_text(self.path / SCORES, json.dumps(figures, indent=2, allow_nan=False) + "\n")
        return figures

    def tidy(self) -> None:
        """Remove what only an unfinished run needs."""
        for path in self.path.glob("checkpoint-*.safetensors"):
            path.unlink()

    def _checkpoint_path(self, start: int) -> Path:
        return self.path / f"checkpoint-{start}.safetensors"

    @property
    def _occupied(self) -> bool:
        return self.path.is_dir() and any(self.path.iterdir())


def _written_by_a_run(name: str) -> bool:
    known = (CONFIG, SCORES, PREDICTION, HISTORY, LOG, REPORT, MODEL, *MODEL_FILES)
    unfinished = name.startswith((".checkpoint-", *(f".{file}." for file in known)))  # a write that was killed
    return name in known or name.startswith("checkpoint-") or unfinished


def _as_far_as_it_goes(run: Run, part: Trained, number: int, seed: int) -> Trajectory:
    """The prediction in all coordinates, or in the learned ones where it left every pose the mechanism has."""
    try:
        return completed(run, part, number, seed)
    except InputError:
        truth = part.recordings[number].truth
        return Trajectory(truth.ts, part.predictions[seed][number], truth.u, columns=truth.columns)


def _history(run: Run) -> str:
    """The loss of every epoch, one row per member and epoch, as CSV."""
    rows = [
        {"start": part.start, "seed": run.config.seed + seed, "epoch": epoch + 1, "loss": float(loss)}
        for part in run.trained
        for seed, learned in enumerate(part.seeds)
        for epoch, loss in enumerate(learned.history)
    ]
    buffer = memory.BytesIO()
    polars.DataFrame(rows or {"start": [], "seed": [], "epoch": [], "loss": []}).write_csv(buffer)
    return buffer.getvalue().decode()


def writable(path: Path) -> None:
    """An error now, rather than after the work, when a file could not be written there."""
    parent = path.parent
    if not parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {parent}")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if not os.access(parent, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {parent} is read-only")
