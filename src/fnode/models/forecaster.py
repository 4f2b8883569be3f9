"""What a comparison sees of a model: a start in, a motion out."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from fnode.field import AbstractField
from fnode.solvers import AbstractSolver, rollout
from fnode.trajectory import State, Trajectory


class AbstractForecaster(eqx.Module):
    """Anything that continues a motion."""

    @property
    @abc.abstractmethod
    def needs(self) -> int:
        """How many true samples it begins with.

        One for a field, none for a function of time. A forecaster that needs more goes from sample to sample: it
        works at the time step it was trained at, and at no other.
        """

    @abc.abstractmethod
    def predict(self, past: Trajectory, ts: Float[Array, " samples"], control=None) -> State:
        """The states at `ts`, which begin with the times of `past`: at least as many true samples as it `needs`."""


class RolledOut(AbstractForecaster):
    """A field and the solver that integrates it: needs one sample of the past."""

    field: AbstractField
    solver: AbstractSolver

    @property
    def needs(self):
        return 1

    def predict(self, past, ts, control=None):
        return rollout(self.field, past.start, ts, control=control, solver=self.solver)
