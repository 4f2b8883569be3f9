"""Sine and cosine of many angles at once, in plain arithmetic that a compiler vectorises.

On CPUs XLA calls a scalar library for each sine; where thousands of motions are simulated side by side that is most of
the work.
"""

import jax.numpy as jnp
import numpy as np

# A quarter turn in three parts, the first two short enough that a whole multiple of them is exact (Cody and Waite).
QUARTER = {
    "float64": (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21),
    "float32": (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8),
}
# Minimax polynomials on an eighth of a turn either side of zero, in the square of the angle (those of fdlibm).
SINE = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
COSINE = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)


def sincos(angle):
    """Sine and cosine, good to a few units of the last place for angles up to 100,000 rad."""
    quarters = jnp.round(angle * (2 / np.pi))
    rest = angle
    for part in QUARTER[str(angle.dtype)]:
        rest = rest - quarters * part
    square = rest * rest
    sine = rest + rest * square * _polynomial(SINE, square)
    cosine = 1 - 0.5 * square + square * square * _polynomial(COSINE, square)
    odd = quarters - 2 * jnp.floor(0.5 * quarters)
    half_turns = 0.5 * (quarters - odd)
    sign = 1 - 2 * (half_turns - 2 * jnp.floor(0.5 * half_turns))
    return sign * jnp.where(odd > 0, cosine, sine), sign * jnp.where(odd > 0, -sine, cosine)


def _polynomial(coefficients, x):
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
