"""A learned model as its user holds it: call it, simulate it, save it, load it."""

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fnode import io
from fnode.config import Config, Network, validated
from fnode.constraints import Holonomic, Partition
from fnode.derivatives import estimated
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.mechanisms import Linkage, described, reduced
from fnode.methods import method_named
from fnode.metrics import flat
from fnode.models import AbstractForecaster, RolledOut
from fnode.signals import LinearHold
from fnode.solvers import refined, solver_named
from fnode.structures import fresh
from fnode.systems import AbstractSystem, configured, system_named
from fnode.training import Labelled, estimated_start
from fnode.trajectory import Column, Columns, State, Trajectory

FORMAT = 3  # of model.json; raised when an older reader could misunderstand it
DESCRIPTION, ARRAYS, MECHANISM = MODEL_FILES = ("model.json", "model.safetensors", "mechanism.toml")


@dataclasses.dataclass(frozen=True)
class Model:
    """A learned field or forecaster, once per start and seed, and what is needed to use it.

    Members may differ in structure: `networks` says what each is made of, `substeps` how many steps its rollout takes
    in a time `dt`. `chosen` is the one that predictions use: the best on windows of the training part. With a `linkage`
    (or a built-in system that is constrained) the learned `columns` are the independent coordinates of a mechanism, and
    motions are given in all of them.
    """

    members: tuple[AbstractField | AbstractForecaster, ...]
    networks: tuple[Network, ...]
    columns: Columns
    config: Config
    dt: float
    chosen: int = 0
    linkage: Linkage | None = None
    substeps: tuple[int, ...] = ()  # one for each member; without any all take one step
    noise: tuple[float, ...] = ()  # of every column of the state that it learned from; none where that was clean

    @property
    def whole(self) -> AbstractSystem | Linkage | None:
        """What completes the learned coordinates, where they are the independent ones of a mechanism."""
        known = self.linkage or builtin(self.config)
        bound = known is not None and known.constraints is not None and known.columns == self.columns
        return known if bound else None

    def complete(self, motion: Trajectory) -> Trajectory:
        """All coordinates of a motion of the learned ones: they obey the constraints to round-off."""
        return motion if self.whole is None else self.whole.complete(motion)

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.members)

    def member(self, number: int | None = None) -> AbstractField:
        """One member's field: the chosen one unless another is asked for."""
        member = self.members[self.chosen if number is None else number]
        if isinstance(member, AbstractForecaster):
            raise InputError(f"{self.config.model} has no rate of change: it only foretells states (simulate)")
        return member

    def forecaster(self, number: int | None = None, *, longest: float | None = None) -> AbstractForecaster:
        """One member as it foretells a motion: a field with its solver, others as they are.

        Where the `longest` interval between samples is more than the `dt` of the data, it takes as many more steps.
        """
        number = self.chosen if number is None else number
        member = self.members[number]
        if isinstance(member, AbstractForecaster):
            return member
        count = self.substeps[number] if self.substeps else 1
        if longest is not None:
            count *= max(1, math.floor(longest / self.dt + 0.01))
        return RolledOut(member, refined(solver_named(self.config.rollout.solver), count))

    def __call__(self, t, x: State, u: Float[Array, " external"] | None = None) -> State:
        """The rate of change of a state, by the chosen member."""
        return self.member()(t, x, u)

    def simulate(
        self,
        start: Trajectory,
        *,
        until: float | None = None,
        dt: float | None = None,
        control: Callable | None = None,
        known: int = 1,
    ) -> Trajectory:
        """The motion from the first sample of `start`: at its own times, or every `dt` up to `until`.

        Noisy samples do not tell where a motion begins, but several together do: of a model that learned from such
        data, the first `known` samples (inputs included) count, and the start that meets them best is taken.

        A start may have more coordinates than were learned, such as all of a mechanism: the learned ones count.

        A model that goes from sample to sample (an LSTM) begins with as many samples of `start` as it needs.

        Inputs come from `control`, a function of time, or else from the samples of `start`, joined by straight lines.
        """
        with jax.enable_x64(True):
            if start.x.q.shape[1] > len(self.columns.coordinates):
                start = reduced(start, self.columns.coordinates)
            measured, start = start, estimated(start)
            start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
            ts = start.ts if until is None and dt is None else _times(start, until, dt or self.dt)
            if control is None:
                control = sampled_control(start)
            forecaster = self.forecaster()
            if forecaster.needs > 1:
                self._check_past(start, ts, forecaster.needs)
            if known > 1 and (begin := self.begins(measured[:known], start.start)) is not None:
                start = dataclasses.replace(start[:1], x=jax.tree.map(lambda leaf: leaf[None], begin))
            x = self._staying(start, ts, control)
            u = None if control is None else jax.vmap(control)(ts)
            return self.complete(Trajectory(ts, x, u, columns=self.columns))

    def begins(self, measured: Trajectory, guess: State, number: int | None = None) -> State | None:
        """The start that a member's rollout meets noisy samples best from; none where data are clean, or it is no
        field."""
        rolled = self.forecaster(number)
        if not self.noise or not isinstance(rolled, RolledOut):
            return None
        noise = np.where(np.isfinite(self.noise), self.noise, np.inf)
        return estimated_start(rolled, measured, guess, noise)

    def _staying(self, start: Trajectory, ts, control) -> State:
        """What the chosen member says, or with a warning the first of the others that stays, if it leaves for good."""
        longest = float(jnp.max(jnp.diff(ts), initial=0.0))
        chosen = predict(self.forecaster(longest=longest), start, ts, control)
        if bool(jnp.isfinite(flat(chosen)).all()):
            return chosen
        for number in (number for number in range(self.size) if number != self.chosen):
            x = predict(self.forecaster(number, longest=longest), start, ts, control)
            if bool(jnp.isfinite(flat(x)).all()):
                warnings.warn(f"member {self.chosen} leaves for good: member {number} foretells instead", stacklevel=3)
                return x
        return chosen

    def _check_past(self, start: Trajectory, ts, needs: int) -> None:
        """An error unless samples of the past and times to come fit a model that goes from sample to sample."""
        name = self.config.model
        if len(start) < needs:
            raise InputError(
                f"this {name} needs {needs} samples of the past, got {len(start)}: give a start with at least {needs}"
            )
        for times in (start.ts[:needs], ts):
            steps = np.diff(np.asarray(times))
            if np.any(np.abs(steps - self.dt) > 1e-3 * self.dt):
                raise InputError(
                    f"this {name} knows only the time step it was trained at, {self.dt:g} s, got {steps[0]:g} s: "
                    f"leave out dt, resample the start, or learn a field such as fnode"
                )

    def save(self, folder: str | Path) -> None:
        """Write `model.safetensors` and `model.json` into a folder, and `mechanism.toml` where there is one.

        Constraints that are a Python function are not saved: `load` takes them again.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        io.write_arrays(folder / ARRAYS, self.members)
        description = {
            "format": FORMAT,
            "arrays": hashlib.sha256((folder / ARRAYS).read_bytes()).hexdigest(),
            "members": [network.model_dump(mode="json") for network in self.networks],
            "substeps": list(self.substeps),
            "noise": [noise if math.isfinite(noise) else None for noise in self.noise],
            "chosen": self.chosen,
            "dt": self.dt,
            "columns": dataclasses.asdict(self.columns),
            "config": self.config.model_dump(exclude_none=True, mode="json"),
            "linkage": None if self.linkage is None else _values(self.linkage),
        }
        if self.linkage is not None and self.linkage.description is not None:
            io.write_text(folder / MECHANISM, self.linkage.description)
        elif self.linkage is not None:
            warnings.warn(
                f"{folder} holds the model of {', '.join(column.name for column in self.columns.coordinates)} alone: "
                "constraints written in Python are not saved; give them again, fnode.load(folder, constraints=)",
                stacklevel=2,
            )
        io.write_text(folder / DESCRIPTION, json.dumps(description, indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | Path, *, constraints: Holonomic | Callable | None = None) -> "Model":
        """The model a folder holds, equal to the saved one bit for bit.

        `constraints` are those it was learned with, if they were a Python function.
        """
        folder = Path(folder)
        for name in (DESCRIPTION, ARRAYS):
            if not (folder / name).is_file():
                raise InputError(f"{folder} is not a finished run: no {name} there; run `fnode learn ... -o {folder}`")
        try:
            description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
            version, digest = description["format"], description["arrays"]
            if version != FORMAT:
                raise InputError(
                    f"{folder / DESCRIPTION} has format {version}, this fnode reads format {FORMAT}: "
                    f"use the fnode that wrote it or train again"
                )
            columns = columns_from(description["columns"])
            config = validated(description["config"], str(folder / DESCRIPTION))
            networks = tuple(Network.model_validate(values) for values in description["members"])
            chosen, dt = int(description["chosen"]), float(description["dt"])
            substeps = tuple(int(count) for count in description.get("substeps", ()))
            noise = tuple(math.inf if value is None else float(value) for value in description.get("noise", ()))
            linkage = _linkage(folder, description.get("linkage"), constraints)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{folder / DESCRIPTION} is damaged ({error}): restore it or train again") from None
        if hashlib.sha256((folder / ARRAYS).read_bytes()).hexdigest() != digest:
            raise InputError(f"{folder / ARRAYS} is damaged or not the one {DESCRIPTION} describes: restore it")
        with jax.enable_x64(True):
            shapes = eqx.filter_eval_shape(
                lambda: tuple(untrained(config, network, columns, jax.random.key(0)) for network in networks)
            )
            members, _ = io.read_arrays(folder / ARRAYS, shapes)
        return cls(members, networks, columns, config, dt, chosen, linkage, substeps, noise)


@eqx.filter_jit
def predict(forecaster: AbstractForecaster, past: Trajectory, ts: Float[Array, " samples"], control=None) -> State:
    """What a forecaster says of a motion, compiled."""
    return forecaster.predict(past, ts, control)


def untrained(
    config: Config, network: Network, columns: Columns, key: PRNGKeyArray, samples: Labelled | None = None
) -> AbstractField | AbstractForecaster:
    """A model with fresh weights in the precision of the configuration; `samples` set its scalers."""
    build = method_named(config.model).build
    made = fresh(network, columns, key, samples) if build is None else build(config, network, columns, key, samples)
    return cast(made, config.training.precision)


def cast(tree, precision: str):
    """Every floating-point array of a tree in the given precision."""
    return jax.tree.map(lambda leaf: leaf.astype(precision) if eqx.is_inexact_array(leaf) else leaf, tree)


def builtin(config: Config) -> AbstractSystem | None:
    """The built-in system of a configuration; none where it is about files."""
    return configured(system_named(config.system), config.parameters) if config.system else None


def sampled_control(trajectory: Trajectory) -> Callable | None:
    """The inputs of a trajectory as a function of time: straight lines between its samples."""
    return None if trajectory.u is None else LinearHold(trajectory.ts, trajectory.u)


def columns_from(values: dict) -> Columns:
    """Columns as `dataclasses.asdict` wrote them."""
    parts = {
        name: tuple(Column(**column) for column in values[name]) for name in ("coordinates", "inputs", "parameters")
    }
    return Columns(**parts, first_order=bool(values["first_order"]))


def _values(linkage: Linkage) -> dict:
    """All of a linkage but its constraints, as plain values."""
    partition = linkage.partition
    text = linkage.description
    return {
        "mechanism": None if text is None else hashlib.sha256(text.encode()).hexdigest(),
        "columns": dataclasses.asdict(linkage.full_columns),
        "partition": {name: getattr(partition, name).tolist() for name in ("independent", "dependent", "rows")},
        "poses": linkage.poses.tolist(),
    }


def _linkage(folder: Path, values: dict | None, constraints: Holonomic | Callable | None) -> Linkage | None:
    """The linkage of a saved model; none where its constraints were a Python function that is not given again."""
    in_python = values is not None and values["mechanism"] is None
    if constraints is not None and not in_python:
        raise InputError(f"{folder} was not learned with constraints written in Python: leave them out")
    if values is None or (in_python and constraints is None):
        return None
    known: dict[str, Any] = {"constraints": Holonomic.of(constraints)} if constraints is not None else {}
    if not in_python:
        path = folder / MECHANISM
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if hashlib.sha256(text.encode()).hexdigest() != values["mechanism"]:
            raise InputError(f"{path} is damaged or not the one {DESCRIPTION} describes: restore it")
        mechanism = described(text)
        known = {"constraints": mechanism.constraints, "mechanism": mechanism, "description": text}
    with jax.enable_x64(True):
        partition = Partition(**{name: jnp.array(places, int) for name, places in values["partition"].items()})
        poses = jnp.array(values["poses"], float)
    return Linkage(partition=partition, poses=poses, full_columns=columns_from(values["columns"]), **known)


def _times(start: Trajectory, until: float | None, dt: float):
    first = float(start.ts[0])
    last = float(start.ts[-1]) if until is None else until
    if dt <= 0 or last < first:
        raise InputError(f"got until={last:g} and dt={dt:g} from t={first:g}: need dt > 0 and an end after the start")
    return first + dt * jnp.arange(round((last - first) / dt) + 1)
