"""A learned Lagrangian: mass matrix, potential and dissipation as networks, accelerations by Euler-Lagrange."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.features import Features
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler
from fnode.models.small_matrices import lower, positive, solve, symmetric

QUIET = 0.3  # size of the output weights at the start: masses begin near one


class LearnedLagrangian(AbstractAcceleration):
    """`M q'' + M' q' - dT/dq + dV/dq + D q' = B u`, coefficients by networks in the coordinates and parameters.

    The network gives the entries of a symmetric matrix whose positive part is `M`: inside the data that is the matrix
    itself, outside it can never lose its sign. `D = K K^T`. Beside each network stands what mechanics has most of: a
    quadratic potential, constant masses and dampers. Coordinates are in units of their accelerations' spread.
    """

    masses: eqx.nn.MLP  # symmetric matrix, dissipation factor, input matrix
    constant: Float[Array, " outputs"]
    potential: eqx.nn.MLP
    stiffness: Float[Array, " pairs"]
    slope: Float[Array, " features"]
    features: Features
    inputs: Scaler
    targets: Scaler

    @classmethod
    def untrained(
        cls, features: Features, inputs: Scaler, targets: Scaler, *, width: int, depth: int, key: PRNGKeyArray
    ) -> "LearnedLagrangian":
        n, size = targets.mean.shape[0], features.size
        pairs = n * (n + 1) // 2
        outputs = 2 * pairs + n * inputs.mean.shape[0]
        first, second = jax.random.split(key)
        return cls(
            _quiet(perceptron(size, outputs, width=width, depth=depth, key=first)),
            jnp.zeros(outputs).at[pairs : 2 * pairs].set(0.01),  # a damper of exactly zero has no slope to learn from
            _quiet(perceptron(size, 1, width=width, depth=depth, key=second)),
            jnp.zeros(size * (size + 1) // 2),
            jnp.zeros(size),
            features,
            inputs,
            targets,
        )

    def coefficients(self, q, u=None):
        """Mass matrix, dissipation matrix and input matrix at a configuration, in scaled units."""
        n = q.shape[0]
        pairs = n * (n + 1) // 2
        mass, drag, push = jnp.split(self.masses(self.features(q, u)) + self.constant, (pairs, 2 * pairs))
        rub = lower(drag, n)
        return positive(symmetric(mass, n) + jnp.eye(n)), rub @ rub.T, push.reshape(n, -1)

    def stored(self, q, u=None):
        """Potential energy in scaled units."""
        shown = self.features(q, u)
        spring = 0.5 * shown @ symmetric(self.stiffness, shown.shape[0]) @ shown
        return self.potential(shown)[0] + self.slope @ shown + spring

    def acceleration(self, t, x, u=None):
        scale = self.targets.spread
        v = x.v / scale

        def energies(q):
            mass, drag, push = self.coefficients(q, u)
            return (mass, self.stored(q, u)), (mass, drag, push)

        # All from one pass: programs that go through the networks once per term take much longer to compile.
        (turning, rising), (mass, drag, push) = jax.jacfwd(energies, has_aux=True)(x.q)
        pushes = jnp.zeros(0) if u is None else u[: self.inputs.mean.shape[0]] / self.inputs.spread
        lift = scale * (0.5 * jnp.einsum("i,ijk,j->k", v, turning, v) - rising)
        force = lift - jnp.einsum("ijk,j,k->i", turning, v, x.v) - drag @ v + push @ pushes
        return scale * solve(mass, force)


def _quiet(network: eqx.nn.MLP) -> eqx.nn.MLP:
    return eqx.tree_at(lambda net: net.layers[-1].weight, network, QUIET * network.layers[-1].weight)
