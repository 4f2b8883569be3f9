"""Small computations behind the corrections: what each claim of the paper, taken at its word, comes to."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fnode import derivatives
from fnode.constraints import Holonomic
from fnode.solvers import RK4, TIGHT, rollout
from fnode.systems import (
    CartPole,
    MassSpring,
    MassSpringDamper,
    Parameter,
    SliderCrank,
    TripleMassSpringDamper,
    recordings,
)
from fnode.systems.cart_pole import AbstractCartPole
from fnode.trajectory import State

R, L = 1.0, 2.0  # half the lengths of crank and rod


class SignedCartPole(AbstractCartPole):
    """The cart-pole with a factor on the term of the squared rate: 1 as printed, -1 as the released code has it."""

    sign: Parameter = 1.0

    columns = CartPole.columns
    protocol = CartPole.protocol

    @property
    def conservative(self):
        return False

    def force(self, q, v, u=None):
        return jnp.stack([(self.sign - 1) * self.pole * self.length * jnp.sin(q[1]) * v[1] ** 2, jnp.zeros_like(q[1])])


def evidence() -> dict[str, Any]:
    """Figures by name; each is quoted by one correction or more."""
    return {**_cart_pole(), **_slider_crank(), **_one_step(), "labels": _labels()}


def _cart_pole() -> dict[str, Any]:
    """Energy and range of the free cart-pole, by the printed equation and with the sign of the released code."""
    ts = 0.01 * jnp.arange(250)

    @jax.jit
    @jax.vmap
    def motion(sign):
        system = SignedCartPole(cart=10.0, pole=10.0, sign=sign)
        x = rollout(system, CartPole.protocol.start, ts, solver=TIGHT)
        return x.q[:, 1], jax.vmap(system.energy)(x)

    (angles, _), energies = (np.asarray(values) for values in motion(jnp.array([1.0, -1.0])))
    beyond = np.flatnonzero(angles > np.pi / 2)
    return {
        "cart_pole_energy": [float(energies[0].min()), float(energies[0].max())],
        "flipped_energy": float(energies[1].max()),
        "cart_pole_angles": [float(angles.min()), float(angles.max())],
        "cart_pole_leaves": float(ts[beyond[0]]),
    }


def _slider_crank() -> dict[str, Any]:
    """The corrected mechanism: does d2(phi)/dt2 = 0 hold along its motion, and does it keep its energy undamped?"""
    system, ts = SliderCrank(), 0.01 * jnp.arange(301)

    @jax.jit
    @jax.vmap
    def motion(damping):
        one = SliderCrank(c12=damping)
        x = rollout(one, one.protocol.start, ts, solver=TIGHT)
        whole = jax.vmap(one.full)(x)
        a = jax.vmap(one.mechanism.acceleration)(ts, whole)
        levels = jax.vmap(one.constraints.residuals)(whole.q, whole.v, a)
        return x, whole, jnp.stack([jnp.abs(level).max() for level in levels]), jax.vmap(one.energy)(x)

    x, whole, residuals, energy = jax.tree.map(np.asarray, motion(jnp.array([system.c12, 0.0])))
    q, v = whole.q[0], whole.v[0]
    printed = jax.vmap(_printed_gamma)(q, v)
    exact = jax.jit(jax.vmap(Holonomic(_printed_constraints).gamma))(q, v)
    return {
        "constraint_residuals": residuals[0].tolist(),
        "slider_crank_energy": float(np.ptp(energy[1]) / np.abs(energy[1]).max()),
        "slider_crank_at_1.5_s": [float(x.q[0, 150, 0]), float(x.v[0, 150, 0])],
        "gamma_error": float(jnp.linalg.norm(printed - exact) / jnp.linalg.norm(exact)),
    }


def _printed_constraints(q):
    """The constraints as the paper prints them; `r` and `l` are half the lengths of crank and rod."""
    x1, y1, one, x2, y2, two, x3, y3, three = q
    crank, rod = R * jnp.stack([jnp.cos(one), jnp.sin(one)]), L * jnp.stack([jnp.cos(two), jnp.sin(two)])
    first, second, third = jnp.stack([x1, y1]), jnp.stack([x2, y2]), jnp.stack([x3, y3])
    pins = [first - crank, first + crank - second + rod, second + rod - third]
    return jnp.concatenate([*pins, jnp.stack([y3, three])])


def _printed_gamma(q, v):
    """The right-hand side of their second derivative as the paper prints it."""
    crank = R * v[2] ** 2 * jnp.stack([jnp.cos(q[2]), jnp.sin(q[2])])
    rod = 2 * L * v[5] ** 2 * jnp.stack([jnp.cos(q[5]), jnp.sin(q[5])])
    return jnp.concatenate([-crank, crank + rod, rod, jnp.zeros(2)])


def _one_step() -> dict[str, Any]:
    """The error of single RK4 steps, as the paper's formula for the trajectory error prints it: its slope."""
    system, errors, counts = MassSpringDamper(), [], (50, 200)
    step = jax.jit(lambda x, dt: RK4.step(system, 0.0, x, dt, lambda t: None))
    for count in counts:
        ts = 2.0 * jnp.arange(count + 1) / count
        x = jax.jit(system.exact)(system.protocol.start, ts)
        after = jax.vmap(lambda q, v, dt=2.0 / count: step(State(q, v), dt))(x.q[:-1], x.v[:-1])
        errors.append(float(jnp.mean((after.q - x.q[1:]) ** 2 + (after.v - x.v[1:]) ** 2)))
    return {"one_step_slope": float(np.polyfit(np.log(1 / np.array(counts)), np.log(errors), 1)[0])}


def _labels() -> dict[str, dict[str, float]]:
    """Relative error of three-point differences and of the hybrid of Fourier transforms and differences, per system."""
    found = {}
    for name, system in {
        "mass_spring": MassSpring(),
        "mass_spring_damper": MassSpringDamper(),
        "triple_mass_spring_damper": TripleMassSpringDamper(),
    }.items():
        (recording,) = recordings(system, key=jax.random.key(0))
        part = recording.truth[: recording.training]
        ts, v, a = (np.asarray(values) for values in (part.ts, part.x.v, part.a))
        found[name] = {
            method: float(
                np.max(
                    np.sqrt(np.mean((derivatives.derivative_named(method)(ts, v).value - a) ** 2, axis=0))
                    / np.std(a, axis=0)
                )
            )
            for method in ("difference3", "hybrid")
        }
    return found
