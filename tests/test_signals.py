"""Laws of every hold: it passes through its samples, and keeps its word outside them."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from fnode.errors import InputError
from fnode.signals import HOLDS, Constant, SideBySide

TS = jnp.array([0.0, 0.4, 0.5, 1.3, 2.0])
DEGREE = {"zero": 0, "linear": 1, "cubic": 3}


@pytest.mark.parametrize("name", HOLDS)
def test_a_hold_passes_through_its_samples(name):
    us = jax.random.normal(jax.random.key(0), (5, 2))
    np.testing.assert_allclose(jax.vmap(HOLDS[name](TS, us))(TS), us, atol=1e-14)


@pytest.mark.parametrize("name", HOLDS)
def test_a_hold_is_exact_on_polynomials_of_its_degree(name):
    def curve(t):
        return jnp.stack([t**k for k in range(DEGREE[name] + 1)], axis=-1)

    between = jnp.linspace(0.0, 2.0, 37)
    np.testing.assert_allclose(jax.vmap(HOLDS[name](TS, curve(TS)))(between), curve(between), atol=1e-13)


@pytest.mark.parametrize("name", HOLDS)
def test_outside_its_range_a_signal_does_what_it_states(name):
    us = jnp.arange(5.0)[:, None] + 1
    held, silent = HOLDS[name](TS, us), HOLDS[name](TS, us, outside=0.0)
    assert [float(held(t)[0]) for t in (-1.0, 3.0)] == [1.0, 5.0]
    assert [float(silent(t)[0]) for t in (-1.0, 3.0)] == [0.0, 0.0]
    assert float(silent(2.0)[0]) == 5.0


def test_a_constant_signal_does_not_change():
    assert float(Constant(jnp.array([3.0]))(17.0)[0]) == 3.0


@pytest.mark.parametrize("name", HOLDS)
def test_samples_and_times_must_match(name):
    with pytest.raises((InputError, ValueError, jaxtyping.TypeCheckError)):
        HOLDS[name](TS, jnp.ones((4, 1)))


def test_signals_side_by_side_keep_their_own_times_and_holds():
    first = HOLDS["zero"](TS, TS[:, None])
    both = SideBySide((first, Constant(jnp.array([7.0])), HOLDS["linear"](2 * TS, TS[:, None])))
    for t in (-1.0, 0.45, 1.9, 3.1, 9.0):
        np.testing.assert_array_equal(both(t)[:2], [first(t)[0], 7.0])
        assert both(t)[2] == pytest.approx(np.clip(t / 2, 0.0, 2.0))
