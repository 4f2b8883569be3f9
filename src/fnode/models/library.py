"""A Lagrangian written in products of elementary functions: structure that holds outside the data."""

import dataclasses
import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.field import AbstractAcceleration
from fnode.models.scaler import Scaler
from fnode.models.small_matrices import solve, symmetric
from fnode.trajectory import Columns

Term = tuple[int, ...]
SLIPS = (0.03, 0.1, 0.3)  # rates, in units of their spread, at which dry friction is fully there
SLIP = 3e-3  # the same of friction that goes with a load, as long as no data tell: next to nothing
BOUND = 4.0  # by how much it differs from the usual, at most


def terms(degree: int, turns: Sequence[bool]) -> tuple[Term, ...]:
    """The products of one elementary function per variable, up to a total degree, in order of their degree.

    A term holds one number per variable: the power of a plain one; for an angle `2 k - 1` means `cos k q` and `2 k`
    means `sin k q`.
    """
    choices = [range(2 * degree + 1 if turn else degree + 1) for turn in turns]
    found = [term for term in itertools.product(*choices) if order(term, turns) <= degree]
    return tuple(sorted(found, key=lambda term: (order(term, turns), term)))


def order(term: Term, turns: Sequence[bool]) -> int:
    """The total degree of a term."""
    return sum((code + 1) // 2 if turn else code for code, turn in zip(term, turns, strict=True))


class Basis(eqx.Module):
    """Values of the terms at given variables; plain variables are first shifted and scaled to the data."""

    scaler: Scaler
    terms: tuple[Term, ...] = eqx.field(static=True)
    turns: tuple[bool, ...] = eqx.field(static=True)

    def __call__(self, variables: Float[Array, " variables"]) -> Float[Array, " terms"]:
        plain = self.scaler.standardise(variables)
        value = jnp.ones(len(self.terms), variables.dtype)
        for i, turn in enumerate(self.turns):
            codes = np.array([term[i] for term in self.terms], dtype=int)
            highest = max(codes.max(initial=0), 1)
            if turn:
                multiples = np.arange(1, (highest + 1) // 2 + 1)
                waves = jnp.stack([jnp.cos(multiples * variables[i]), jnp.sin(multiples * variables[i])], axis=1)
                table = jnp.concatenate([jnp.ones(1, variables.dtype), waves.reshape(-1)])
            else:
                powers = itertools.accumulate([jnp.ones_like(plain[i]), *[plain[i]] * highest], jnp.multiply)
                table = jnp.stack(list(powers))
            value = value * table[codes]
        return value

    @property
    def orders(self) -> np.ndarray:
        """The total degree of every term."""
        return np.array([order(term, self.turns) for term in self.terms])


class Resistance(eqx.Module):
    """Dry friction and air drag in every joint: forces along the rate `w` of a coordinate, or of one relative to
    another, that go with `tanh(w / slip)` for several slips and with `w |w|`."""

    rates: Scaler
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)  # one and the same coordinate twice: its own rate

    @classmethod
    def between(cls, coordinates: int, v: Float[Array, "samples coordinates"] | None = None) -> "Resistance":
        """The joints of all pairs of coordinates; velocities tell how fast they usually turn."""
        pairs = tuple(itertools.combinations_with_replacement(range(coordinates), 2))
        made = cls(Scaler.identity(len(pairs)), pairs)
        return made if v is None else cls(Scaler.of(jax.vmap(made.relative)(v)), pairs)

    def relative(self, v: Float[Array, " coordinates"]) -> Float[Array, " joints"]:
        """The rate of every joint."""
        return jnp.stack([v[i] if i == j else v[j] - v[i] for i, j in self.pairs])

    def __call__(self, v: Float[Array, " coordinates"]) -> Float[Array, "joints kinds"]:
        w = self.relative(v) / jax.lax.stop_gradient(self.rates.spread)
        return jnp.stack([*(jnp.tanh(w / slip) for slip in SLIPS), w * jnp.abs(w)], axis=1)

    def forces(self, size: Float[Array, " joints"], coordinates: int) -> Float[Array, " coordinates"]:
        """What forces of the joints are on the coordinates."""
        total = jnp.zeros(coordinates, size.dtype)
        for k, (i, j) in enumerate(self.pairs):
            total = total.at[j].add(size[k])
            total = total if i == j else total.at[i].add(-size[k])
        return total


class Load(eqx.Module):
    """Dry friction that goes with what a joint carries: `tanh(w / slip)` times a force that is linear in the weights,
    centrifugal forces and accelerations, as every reaction is.

    Joints are those of `resistance`. What slides may go faster in some configurations than in others, so the usual
    `slip` is divided by a sum of the first terms of a basis, within bounds. The friction coefficient may be one of the
    external values, by its number.
    """

    resistance: Resistance
    slip: Float[Array, " joints"]  # in units of the rates' spread
    shape: Float[Array, "joints firsts"]
    coefficient: int | None = eqx.field(static=True)

    @classmethod
    def between(
        cls, coordinates: int, v: Float[Array, "samples coordinates"] | None, basis: Basis, coefficient: int | None
    ) -> "Load":
        """The joints of all pairs of coordinates."""
        joints = Resistance.between(coordinates, v)
        shape = jnp.zeros((len(joints.pairs), int(np.sum(basis.orders <= 1)))).at[:, 0].set(1.0)
        return cls(joints, jnp.full(len(joints.pairs), SLIP), shape, coefficient)

    @property
    def forms(self) -> int:
        """How many forces a load is made of."""
        n = max(j for _, j in self.resistance.pairs) + 1
        return 1 + n * (n + 1) // 2 + n

    def rates(self, v: Float[Array, " coordinates"], values: Float[Array, " terms"]) -> Float[Array, " joints"]:
        """The rates of the joints in units of the rate at which friction is fully there; `values` are those of the
        basis."""
        spread, slip, shape = jax.lax.stop_gradient((self.resistance.rates.spread, self.slip, self.shape))
        here = jnp.clip(shape @ values[: shape.shape[1]], 1 / BOUND, BOUND)
        return self.resistance.relative(v) / (spread * slip) * here

    def friction(self, v, u, values) -> Float[Array, " joints"]:
        """What each joint makes of its load: at most the friction coefficient."""
        scale = 1.0 if self.coefficient is None or u is None else u[self.coefficient]
        return scale * jnp.tanh(self.rates(v, values))

    def carried(self, v, a) -> Float[Array, " forms"]:
        """What the forces of a load go with."""
        rows, columns = np.triu_indices(v.shape[0])
        return jnp.concatenate([jnp.ones(1, v.dtype), v[rows] * v[columns], a])


class Library(AbstractAcceleration):
    """Accelerations from `M q'' + M' q' - dT/dq + dV/dq + D q' + R = B u`, every coefficient a sum of known terms.

    The balance of forces is linear in all coefficients, so they are found in closed form. Terms multiply
    coordinates and parameters alike; inputs push with coefficients of their own. `R`, where there is any, is dry
    friction and air drag, or dry friction that goes with the load of its joint.
    """

    mass: Float[Array, "pairs terms"]
    potential: Float[Array, " potentials"]
    damping: Float[Array, "pairs terms"]
    push: Float[Array, "coordinates inputs terms"]
    friction: Float[Array, "joints kinds"] | None
    loads: Float[Array, "joints forms terms"] | None
    basis: Basis
    stored: Basis  # of the potential energy; begins with the terms of the other
    resistance: Resistance | None
    load: Load | None
    inputs: int = eqx.field(static=True)

    @property
    def coordinates(self) -> int:
        return self.push.shape[0]

    def variables(self, q, u):
        """What terms are made of: coordinates and parameters, but not the coefficient of friction."""
        if u is None:
            return q
        left_out = None if self.load is None else self.load.coefficient
        return jnp.concatenate([q, *(u[k : k + 1] for k in range(self.inputs, u.shape[0]) if k != left_out)])

    def mass_matrix(self, q, u=None):
        return symmetric(self.mass @ self.basis(self.variables(q, u)), q.shape[0])

    def slopes(self, q, u=None):
        """Values of all terms, and their slopes in the coordinates; those of the basis come first."""

        def values(q):
            found = self.stored(self.variables(q, u))
            return found, found

        slopes, found = jax.jacfwd(values, has_aux=True)(q)
        return found, slopes

    def rubbing(self, x, a, values, u=None):
        """The forces of friction that go with the load, at given accelerations and values of the basis."""
        if self.load is None or self.loads is None:
            return jnp.zeros_like(x.v)
        carried = (self.loads @ values) @ self.load.carried(x.v, a)
        return self.load.resistance.forces(self.load.friction(x.v, u, values) * carried, x.v.shape[0])

    def balance(self, x, u=None):
        """What multiplies accelerations, masses and friction that goes with a load; and all that this must balance:
        potential, gyroscopic and dissipative forces, and inputs."""
        n, count = x.q.shape[0], len(self.basis.terms)
        stored, slopes = self.slopes(x.q, u)
        values = stored[:count]
        mass = symmetric(self.mass @ values, n)
        turning = self.mass @ slopes[:count]  # of the entries of the mass matrix, with every coordinate
        lift = 0.5 * _products(x.v) @ turning - self.potential @ slopes
        drag = symmetric(turning @ x.v + self.damping @ values, n) @ x.v
        if self.resistance is not None and self.friction is not None:
            drag += self.resistance.forces(jnp.sum(self.friction * self.resistance(x.v), axis=1), n)
        if self.load is not None:
            drag += self.rubbing(x, jnp.zeros_like(x.v), values, u)
            mass += jax.jacfwd(lambda a: self.rubbing(x, a, values, u))(jnp.zeros_like(x.v))
        pushed = (self.push @ values) @ u[: self.inputs] if self.inputs and u is not None else 0.0
        return mass, lift - drag + pushed

    def design(self, x, a, u=None):
        """The slope of `M q''` less all forces in every coefficient, in the order of the fields.

        The balance is linear: along a true motion, this times the coefficients is zero.
        """
        n, count = x.q.shape[0], len(self.basis.terms)
        found, stored = self.slopes(x.q, u)
        values, slopes = found[:count], stored[:count]
        units = jax.vmap(lambda entries: symmetric(entries, n))(jnp.eye(self.mass.shape[0]))
        inertia, momentum = ((units @ rates).T[..., None] for rates in (a, x.v))  # coordinates, pairs, one
        energy = 0.5 * (x.v @ momentum[..., 0])[:, None] * slopes.T[:, None, :]
        pushes = jnp.eye(n)[:, :, None, None] * (jnp.zeros(0) if u is None else u[: self.inputs])[:, None] * values
        parts = [inertia * values + momentum * (slopes @ x.v) - energy, stored.T, momentum * values, -pushes]
        if (joints := self.resistance) is not None:
            kinds = joints(x.v)
            along = jax.vmap(lambda size: joints.forces(size, n))(jnp.eye(kinds.shape[0]))
            parts.append(along.T[..., None] * kinds)
        if (load := self.load) is not None:
            rubs = load.friction(x.v, u, values)
            along = jax.vmap(lambda size: load.resistance.forces(size, n))(jnp.diag(rubs))
            parts.append(along.T[..., None, None] * load.carried(x.v, a)[:, None] * values)
        return jnp.concatenate([part.reshape(n, -1) for part in parts], axis=1)

    def acceleration(self, t, x, u=None):
        return solve(*self.balance(x, u))


def _products(v: Float[Array, " coordinates"]) -> Float[Array, " pairs"]:
    """`v M v` is this times the entries of `M` on and above its diagonal."""
    rows, columns = np.triu_indices(v.shape[0])
    return v[rows] * v[columns] * np.where(rows == columns, 1.0, 2.0)


def of_joints(library: Library) -> Library:
    """Which coefficients of a library of degree two joints between rigid bodies make; the others are false.

    Masses are constant on the diagonal, or go with the angles of others; off it they go with the angles of the two
    coordinates, each at most once. Energy is stored by springs and by weight that angles lift; dampers are constant.
    Parameters multiply all of it.
    """
    turns = library.basis.turns[: library.coordinates]

    def powers(term: Term) -> list[int]:
        return [order((code,), (turn,)) for code, turn in zip(term, library.basis.turns, strict=True)][: len(turns)]

    def couples(term: Term, i: int, j: int) -> bool:
        allowed = [int(turn and (k != i or i != j)) for k, turn in enumerate(turns)]
        single = [int(turn and k in (i, j) and i != j) for k, turn in enumerate(turns)]
        used = powers(term)
        once = sum(used) <= 1 and all(p <= most for p, most in zip(used, allowed, strict=True))
        return once or all(p <= most for p, most in zip(used, single, strict=True))

    def stores(term: Term) -> bool:
        return all(p <= (1 if turn else 2) for p, turn in zip(powers(term), turns, strict=True))

    def constant(term: Term) -> bool:
        return sum(powers(term)) == 0

    pairs = itertools.combinations_with_replacement(range(len(turns)), 2)
    masses = jnp.array([[couples(term, i, j) for term in library.basis.terms] for i, j in pairs])
    plain = jnp.array([constant(term) for term in library.basis.terms])
    lifted = jnp.array([stores(term) for term in library.stored.terms])
    push = jnp.broadcast_to(jnp.array([sum(powers(term)) <= 1 for term in library.basis.terms]), library.push.shape)
    mask = eqx.tree_at(
        lambda m: (m.mass, m.potential, m.damping, m.push),
        library,
        (masses, lifted, jnp.broadcast_to(plain, library.damping.shape), push),
    )
    return _with_all_friction(mask)


def trimmed(library: Library, degree: int) -> Library:
    """The library without its terms above a degree."""
    turns, scaler = library.basis.turns, library.basis.scaler
    basis, stored = (Basis(scaler, terms(d, turns), turns) for d in (degree, max(2, degree)))
    count = len(basis.terms)  # lower terms come first
    return dataclasses.replace(
        library,
        mass=library.mass[:, :count],
        potential=library.potential[: len(stored.terms)],
        damping=library.damping[:, :count],
        push=library.push[..., :count],
        loads=None if library.loads is None else library.loads[..., :count],
        basis=basis,
        stored=stored,
    )


def of_degree(library: Library, degree: int) -> Library:
    """Which coefficients of a library are left when it is trimmed; the others are false."""
    low = library.basis.orders <= degree
    masses, push = (np.broadcast_to(low, leaf.shape) for leaf in (library.mass, library.push))
    lifted = library.stored.orders <= max(2, degree)
    mask = eqx.tree_at(lambda m: (m.mass, m.potential, m.damping, m.push), library, (masses, lifted, masses, push))
    mask = _with_all_friction(mask)
    return mask if mask.loads is None else eqx.tree_at(lambda m: m.loads, mask, np.broadcast_to(low, mask.loads.shape))


def _with_all_friction(mask: Library) -> Library:
    if mask.friction is not None:
        mask = eqx.tree_at(lambda m: m.friction, mask, jnp.ones_like(mask.friction, bool))
    return mask if mask.loads is None else eqx.tree_at(lambda m: m.loads, mask, jnp.ones_like(mask.loads, bool))


def empty_library(
    columns: Columns,
    degree: int,
    *,
    scaler: Scaler,
    friction: str = "none",
    coefficient: int | None = None,
    v: Float[Array, "samples coordinates"] | None = None,
) -> Library:
    """A library without coefficients: terms in coordinates and parameters up to a degree; potentials at least to two,
    where springs are.

    The scaler is that of the variables of the terms, so without the parameter that is the `coefficient` of friction;
    velocities tell how fast joints usually turn.
    """
    n, inputs = len(columns.coordinates), len(columns.inputs)
    parameters = (column for k, column in enumerate(columns.parameters) if inputs + k != coefficient)
    turns = tuple(column.angle for column in (*columns.coordinates, *parameters))
    basis, stored = (Basis(scaler, terms(d, turns), turns) for d in (degree, max(2, degree)))
    dry = Resistance.between(n, v) if friction == "dry" else None
    load = Load.between(n, v, basis, coefficient) if friction == "load" else None
    pairs, count = n * (n + 1) // 2, len(basis.terms)
    return Library(
        mass=jnp.zeros((pairs, count)),
        potential=jnp.zeros(len(stored.terms)),
        damping=jnp.zeros((pairs, count)),
        push=jnp.zeros((n, inputs, count)),
        friction=None if dry is None else jnp.zeros((len(dry.pairs), len(SLIPS) + 1)),
        loads=None if load is None else jnp.zeros((len(load.slip), load.forms, count)),
        basis=basis,
        stored=stored,
        resistance=dry,
        load=load,
        inputs=inputs,
    )
