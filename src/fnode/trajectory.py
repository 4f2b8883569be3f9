"""The two records everything is made of: a state, and a trajectory of states."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.errors import InputError


class State(eqx.Module):
    """Coordinates and velocities at one instant; a first-order system has an empty `v`."""

    q: Float[Array, "*batch coordinates"]
    v: Float[Array, "*batch velocities"]


@dataclasses.dataclass(frozen=True)
class Column:
    """One measured quantity: its name, its unit, and whether it is an angle."""

    name: str
    unit: str = ""
    angle: bool = False

    @property
    def rate(self) -> "Column":
        """The time derivative of this quantity, as files name it."""
        return Column(f"d_{self.name}", f"{self.unit}/s" if self.unit else "")


@dataclasses.dataclass(frozen=True)
class Columns:
    """What the numbers of a trajectory mean; inputs and parameters share the array `u`, in this order."""

    coordinates: tuple[Column, ...]
    inputs: tuple[Column, ...] = ()
    parameters: tuple[Column, ...] = ()
    first_order: bool = False

    def __post_init__(self):
        names = [column.name for column in (*self.state, *self.external)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"column '{twice[0]}' appears twice: every column needs its own name")

    @property
    def velocities(self) -> tuple[Column, ...]:
        return () if self.first_order else tuple(column.rate for column in self.coordinates)

    @property
    def accelerations(self) -> tuple[Column, ...]:
        return tuple(
            dataclasses.replace(column.rate, name=f"dd_{column.name[2:]}", unit=column.unit and f"{column.unit}²")
            for column in self.velocities
        )

    @property
    def state(self) -> tuple[Column, ...]:
        """Coordinates, then velocities: the columns of `Trajectory.states`."""
        return (*self.coordinates, *self.velocities)

    @property
    def external(self) -> tuple[Column, ...]:
        """Inputs, then parameters: the columns of `Trajectory.u`."""
        return (*self.inputs, *self.parameters)


class Trajectory(eqx.Module):
    """States sampled at increasing times, with inputs and accelerations where they are known."""

    ts: Float[Array, " samples"]
    x: State
    u: Float[Array, "samples external"] | None = None
    a: Float[Array, "samples velocities"] | None = None
    columns: Columns = eqx.field(static=True, kw_only=True)

    def __len__(self) -> int:
        return self.ts.shape[0]

    def __getitem__(self, part: slice) -> "Trajectory":
        """A stretch of the trajectory."""
        return jax.tree.map(lambda leaf: leaf[part], self)

    @property
    def start(self) -> State:
        return jax.tree.map(lambda leaf: leaf[0], self.x)

    @property
    def states(self) -> Float[Array, "samples state"]:
        """Coordinates and velocities side by side."""
        return jnp.concatenate([self.x.q, self.x.v], axis=-1)

    def checked(self, origin: str = "trajectory", *, gaps: bool = False) -> "Trajectory":
        """Itself, after making sure that times increase and every number is finite (or, with `gaps`, missing)."""
        if len(self) == 0:
            raise InputError(f"{origin}: got no samples, need at least one")
        later = np.diff(np.asarray(self.ts))
        if not np.all(np.isfinite(self.ts)) or np.any(later <= 0):
            row = int(np.argmax(~(later > 0))) + 1
            raise InputError(
                f"{origin}: times must increase, but sample {row} (t = {self.ts[row]:g}) does not come after "
                f"sample {row - 1} (t = {self.ts[row - 1]:g}); sort the rows or remove duplicates"
            )
        arrays = [(self.states, self.columns.state), (self.u, self.columns.external)]
        for values, columns in arrays:
            if values is None or np.all(np.isfinite(values) | (gaps & np.isnan(values))):
                continue
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InputError(
                f"{origin}: {values[row, column]} in column '{columns[column].name}' at sample {row} "
                f"(t = {self.ts[row]:g}); every value must be finite: remove or repair the row"
            )
        return self
