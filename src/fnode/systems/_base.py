"""What every built-in system tells about itself."""

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jaxtyping import Array, Float

from fnode.constraints import Holonomic
from fnode.field import AbstractAcceleration, AbstractField
from fnode.signals import AbstractSignal, Constant
from fnode.trajectory import Columns, State, Trajectory

Parameter = float | Float[Array, ""]
"""A number that may be traced, so that motions can be differentiated by it."""


@dataclasses.dataclass(frozen=True)
class Protocol:
    """The paper's experiment on a system: where it starts, how it is sampled, what is for training."""

    q: tuple[float, ...]
    v: tuple[float, ...]
    train: int
    test: int
    dt: float = 0.01
    integrator: str = "rk4"

    @property
    def start(self) -> State:
        return State(jnp.asarray(self.q, float), jnp.asarray(self.v, float))


@dataclasses.dataclass(frozen=True)
class Case:
    """One motion of an experiment: how many samples are for training and for testing, under which parameters.

    It starts where the protocol says, unless it has a state of its own: coordinates, then velocities.
    """

    name: str
    train: int
    test: int
    parameters: tuple[float, ...] = ()
    start: tuple[float, ...] | None = None


class AbstractSystem(AbstractField):
    """A field with names for its columns and the paper's experiment. Its own numbers are the fields of the class."""

    columns: ClassVar[Columns]
    protocol: ClassVar[Protocol]
    data_solver: ClassVar[str | None] = None  # what makes its data; none: the exact solution or a tight adaptive solver
    ranges: ClassVar[dict[str, tuple[float, float]]] = {}  # of parameters, where the experiment varies them

    @property
    @abc.abstractmethod
    def conservative(self) -> bool:
        """Whether energy is constant along a motion without inputs."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """The motions of the experiment."""
        return (Case("0", self.protocol.train, self.protocol.test),)

    def control(self, parameters: tuple[float, ...] | Float[Array, " parameters"]) -> Callable | None:
        """Inputs and parameters as a function of time, for one case."""
        return Constant(jnp.asarray(parameters)) if self.columns.external else None

    @property
    def constraints(self) -> Holonomic | None:
        """The constraints on all coordinates, where the state holds only the independent ones."""
        return None

    def complete(self, trajectory: Trajectory) -> Trajectory:
        """All coordinates of a motion: the same motion where there are no constraints."""
        return trajectory

    def exact(self, x0: State, ts: Float[Array, " samples"]) -> State | None:
        """The motion in closed form, where there is one."""
        return None


class AbstractFirstOrder(AbstractSystem):
    """A system whose coordinates have rates of their own, written component by component.

    Components may be numbers or arrays: thousands of motions side by side are arrays, which a compiler turns into
    loops without gaps.
    """

    place: ClassVar[tuple[str, ...]] = ()  # the coordinates that say where it is, for distances

    @abc.abstractmethod
    def inputs(self, t) -> tuple:
        """The inputs of the experiment at a time, the same for every motion."""

    @abc.abstractmethod
    def constants(self, parameters: tuple) -> tuple:
        """What follows from the parameters of a motion alone, computed once for all of its steps."""

    @abc.abstractmethod
    def rates(self, q: tuple, inputs: tuple, constants: tuple) -> tuple:
        """The rate of each coordinate."""

    def __call__(self, t, x, u=None):
        assert u is not None
        number = len(self.columns.inputs)
        constants = self.constants(tuple(u[number:]))
        return State(jnp.stack(self.rates(tuple(x.q), tuple(u[:number]), constants)), x.v)

    def control(self, parameters):
        return Experiment(self, jnp.asarray(parameters))


class Experiment(AbstractSignal):
    """The inputs of a system's experiment beside the parameters of one motion."""

    system: AbstractFirstOrder
    parameters: Float[Array, " parameters"]

    def __call__(self, t):
        inputs = jnp.stack(self.system.inputs(t)).astype(self.parameters.dtype)
        return jnp.concatenate([inputs, self.parameters])


class AbstractMechanical(AbstractSystem, AbstractAcceleration):
    """A mechanism in minimal coordinates, with its energies."""

    @abc.abstractmethod
    def kinetic(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, ""]:
        """Kinetic energy in joules."""

    @abc.abstractmethod
    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        """Potential energy in joules."""

    @abc.abstractmethod
    def force(self, q: Float[Array, " n"], v: Float[Array, " n"], u=None) -> Float[Array, " n"]:
        """Generalised forces that no potential gives: damping, friction, inputs."""

    def lagrangian(self, q, v):
        return self.kinetic(q, v) - self.potential(q)

    def energy(self, x: State):
        return self.kinetic(x.q, x.v) + self.potential(x.q)


def linear_motion(field: AbstractAcceleration, x0: State, ts: Float[Array, " samples"]) -> State:
    """The exact motion of a field that is linear in its state: the matrix exponential at each time."""
    n = x0.q.shape[0]

    def rate(z):
        x = field(0.0, State(z[:n], z[n:]))
        return jnp.concatenate([x.q, x.v])

    matrix = jax.jacfwd(rate)(jnp.zeros(2 * n))
    z0 = jnp.concatenate([x0.q, x0.v])
    motion = jax.vmap(lambda t: jax.scipy.linalg.expm(matrix * t, max_squarings=32) @ z0)(ts - ts[0])
    return State(motion[:, :n], motion[:, n:])
