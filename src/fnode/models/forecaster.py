"""What a comparison sees of a model: a start in, a motion out."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from fnode.field import AbstractField
from fnode.solvers import AbstractSolver, rollout
from fnode.trajectory import State, Trajectory


class AbstractForecaster(eqx.Module):
    """Anything that continues a motion."""

    @abc.abstractmethod
    def predict(self, past: Trajectory, ts: Float[Array, " samples"], control=None) -> State:
        """The states at `ts`, given what came before and at `ts[0]`: the samples of `past`."""


class RolledOut(AbstractForecaster):
    """A field and the solver that integrates it: needs one sample of the past."""

    field: AbstractField
    solver: AbstractSolver

    def predict(self, past, ts, control=None):
        return rollout(self.field, past.start, ts, control=control, solver=self.solver)
