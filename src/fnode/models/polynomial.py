"""A polynomial in several variables, fitted in closed form and then left alone."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float

HIGHEST_POWER = 3  # of one variable: four values on a grid cannot tell a fourth power from lower ones
RIDGE = 1e-12  # of the mean square of a term: enough for Cholesky's method, too little to see


class Polynomial(eqx.Module):
    """Products of up to `degree` of the variables, each with a coefficient; training never changes them."""

    coefficients: Float[Array, "outputs terms"]
    degree: int = eqx.field(static=True)

    @classmethod
    def zero(cls, variables: int, outputs: int, degree: int) -> "Polynomial":
        return cls(jnp.zeros((outputs, len(products(variables, degree)) + 1)), degree)

    @classmethod
    def fitted(
        cls, variables: Float[Array, "samples variables"], values: Float[Array, "samples outputs"], degree: int
    ) -> "Polynomial":
        """The polynomial with the least squared error on these samples."""
        shown = jax.vmap(lambda row: terms(row, degree))(variables)
        gram = shown.T @ shown
        gram = gram + RIDGE * jnp.mean(jnp.diag(gram)) * jnp.eye(gram.shape[0])
        factor = jax.scipy.linalg.cho_factor(gram)
        return cls(jax.scipy.linalg.cho_solve(factor, shown.T @ values).T, degree)

    def __call__(self, variables: Float[Array, " variables"]) -> Float[Array, " outputs"]:
        return jax.lax.stop_gradient(self.coefficients) @ terms(variables, self.degree)


def products(variables: int, degree: int) -> list[tuple[int, ...]]:
    """The variables of each term, from single ones to products of `degree`."""
    return [
        term
        for size in range(1, degree + 1)
        for term in itertools.combinations_with_replacement(range(variables), size)
        if max(map(term.count, term)) <= HIGHEST_POWER
    ]


def terms(variables: Float[Array, " variables"], degree: int) -> Float[Array, " terms"]:
    """One, the variables, and their products; every product is a shorter one times one more variable."""
    known = products(variables.shape[0], degree)
    place = {term: k for k, term in enumerate(known)}
    found = [jnp.ones(1, variables.dtype)]
    shorter = variables
    for size in range(1, degree + 1):
        here = [term for term in known if len(term) == size]
        if size > 1:
            first = place[next(term for term in known if len(term) == size - 1)]
            rest = np.array([place[term[:-1]] - first for term in here])
            shorter = shorter[rest] * variables[np.array([term[-1] for term in here])]
        found.append(shorter)
    return jnp.concatenate(found)
