"""A planar mechanism: bodies, joints and forces as one field over all coordinates."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from fnode.constraints import Holonomic, solve_kkt
from fnode.errors import InputError
from fnode.field import AbstractAcceleration
from fnode.mechanisms.bodies import GROUND, Body
from fnode.mechanisms.forces import AbstractForce
from fnode.mechanisms.friction import MOST_STEPS, Friction, consistent_forces
from fnode.mechanisms.joints import AbstractJoint, AbstractSliding, Revolute
from fnode.trajectory import Column, Columns, State


class Mechanism(AbstractAcceleration):
    """Rigid bodies in the plane, held together by joints; `q` holds `x, y, theta` of every body in turn.

    Accelerations come from the paper's Eq. (1), index 1, so a state has to obey the constraints to begin with: see
    `assemble` and `simulate`. Gravity points along `-y`. `independent` names the coordinates to choose freely, such as
    `theta_crank`; without it they are found by pivoting. `redundant` says that some constraints repeat others
    (`assemble` finds out); multipliers are then the smallest ones that do the job.
    """

    bodies: tuple[Body, ...]
    joints: tuple[AbstractJoint, ...] = ()
    forces: tuple[AbstractForce, ...] = ()
    friction: tuple[Friction, ...] = ()
    gravity: float | Array = 9.81
    independent: tuple[str, ...] = eqx.field(static=True, default=())
    redundant: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        _check_names("body", [body.name for body in self.bodies])
        _check_names("joint", [joint.name for joint in self.joints])
        known = {GROUND, *(body.name for body in self.bodies)}
        parts = [(f"joint '{joint.name}'", joint.bodies) for joint in self.joints]
        parts += [(f"force {k + 1} ({type(force).__name__})", force.bodies) for k, force in enumerate(self.forces)]
        for part, ends in parts:
            for end in ends:
                if end not in known:
                    raise InputError(f"{part} names body '{end}', which does not exist: choose from {_list(known)}")
            if ends[0] == ends[1]:
                raise InputError(f"{part} has body '{ends[0]}' at both ends: it needs two different ones")
        for body in self.bodies:
            for quantity in ("mass", "inertia"):
                value = getattr(body, quantity)
                if _concrete(value) and not np.all(np.asarray(value) >= 0):
                    raise InputError(f"body '{body.name}' has {quantity} {value}: it must not be negative")
        sliding = {joint.name for joint in self.joints if isinstance(joint, AbstractSliding)}
        for friction in self.friction:
            if friction.joint not in sliding:
                raise InputError(
                    f"friction on joint '{friction.joint}', which is not one that slides: choose from {_list(sliding)}"
                )
        names = [column.name for column in self.columns.coordinates]
        for name in self.independent:
            if name not in names:
                raise InputError(f"independent coordinate '{name}' does not exist: choose from {_list(names)}")

    @property
    def columns(self) -> Columns:
        """All coordinates, then the inputs that forces and friction take, in the order of their first mention."""
        coordinates = [
            column
            for body in self.bodies
            for column in (
                Column(f"x_{body.name}", "m"),
                Column(f"y_{body.name}", "m"),
                Column(f"theta_{body.name}", "rad", angle=True),
            )
        ]
        inputs = dict.fromkeys(part.input for part in (*self.forces, *self.friction) if part.input is not None)
        return Columns(tuple(coordinates), inputs=tuple(Column(name) for name in inputs))

    @property
    def start(self) -> State:
        """The poses and rates the bodies were given, not yet made to obey the joints."""
        return State(_flat([body.pose for body in self.bodies]), _flat([body.rate for body in self.bodies]))

    @property
    def mass(self) -> Float[Array, " n"]:
        """The diagonal of the mass matrix."""
        return _flat([(body.mass, body.mass, body.inertia) for body in self.bodies])

    @property
    def constraints(self) -> Holonomic:
        return Holonomic(self.phi)

    def phi(self, q: Float[Array, " n"]) -> Float[Array, " m"]:
        """The residuals of all joints, in their order."""
        residuals = [joint.residual(*self._ends(joint, q)) for joint in self.joints]
        return jnp.concatenate([jnp.zeros(0, q.dtype), *residuals])

    def poses(self, q: Float[Array, " n"]) -> Mapping[str, Float[Array, "3"]]:
        """`x, y, theta` of each body and of the ground, by name."""
        placed = {body.name: q[3 * k : 3 * k + 3] for k, body in enumerate(self.bodies)}
        return {GROUND: jnp.zeros(3, q.dtype), **placed}

    def rows(self, name: str) -> slice:
        """Where the multipliers of a joint are."""
        first = 0
        for joint in self.joints:
            if joint.name == name:
                return slice(first, first + joint.rows)
            first += joint.rows
        raise InputError(f"joint '{name}' does not exist: choose from {_list(joint.name for joint in self.joints)}")

    def kinetic(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, ""]:
        """Kinetic energy in joules."""
        return 0.5 * jnp.sum(self.mass * v**2)

    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        """Potential energy of weights and springs in joules."""
        weight = self.gravity * jnp.sum(self.mass[1::3] * q[1::3])
        return weight + sum(force.energy(force.measure(*self._ends(force, q))) for force in self.forces)

    def energy(self, x: State) -> Float[Array, ""]:
        return self.kinetic(x.q, x.v) + self.potential(x.q)

    @property
    def conservative(self) -> bool:
        """Whether energy is constant along every motion."""
        rubbing = any(f.input is not None or jnp.any(jnp.asarray(f.mu)) for f in self.friction)
        return not rubbing and all(force.conservative for force in self.forces)

    def applied(self, t, x: State, u: Float[Array, " external"] | None = None) -> Float[Array, " n"]:
        """Generalised forces of weight, springs, dampers and drives: all but friction and constraint forces."""
        inputs = self._inputs(u)
        nothing = jnp.zeros((), x.q.dtype)
        loads = {body.name: jnp.stack([nothing, -self.gravity * body.mass, nothing]) for body in self.bodies}
        for force in self.forces:
            s, rate, pulls = self._along(force, force.measure, x)
            f = force.strength(s, rate, inputs)
            loads |= {name: loads[name] + f * pull for name, pull in pulls.items()}
        return jnp.concatenate(list(loads.values()))

    def dynamics(self, t, x: State, u: Float[Array, " external"] | None = None):
        """Accelerations, multipliers and the generalised friction forces that go with them."""
        inputs = self._inputs(u)
        slips = [self._slip(friction, x) for friction in self.friction]
        force, gamma = self.applied(t, x, u), self.constraints.gamma(x.q, x.v)
        if not slips:
            return *self._respond(x.q, force, gamma), jnp.zeros_like(x.q)

        # Accelerations and multipliers are linear in friction: one factorisation answers for all of its directions.
        directions = jnp.stack([direction for _, direction in slips], axis=1)
        still = jnp.zeros((gamma.size, len(slips)), gamma.dtype)
        responses = self._respond(x.q, jnp.column_stack([force, directions]), jnp.column_stack([gamma, still]))
        grip = jnp.stack(
            [
                inputs.get(friction.input, friction.mu) * jnp.tanh(rate / friction.v_s)
                for friction, (rate, _) in zip(self.friction, slips, strict=True)
            ]
        )

        def with_friction(response, f):
            return response[:, 0] + response[:, 1:] @ f

        def limit(f):
            multipliers = with_friction(responses[1], f)
            pressing = [self._joint(part).pressing(multipliers[self.rows(part.joint)]) for part in self.friction]
            return -grip * jnp.stack(pressing)

        one_slide = len(slips) == 1 and not isinstance(self._joint(self.friction[0]), Revolute)
        f = consistent_forces(limit, jnp.zeros_like(grip), steps=1 if one_slide else MOST_STEPS)
        return with_friction(responses[0], f), with_friction(responses[1], f), directions @ f

    def acceleration(self, t, x, u=None):
        return self.dynamics(t, x, u)[0]

    @property
    def _massless(self) -> bool:
        """Whether some body has no mass or no inertia, as far as that is known before running."""
        values = [value for body in self.bodies for value in (body.mass, body.inertia)]
        return any(_concrete(value) and not np.all(np.asarray(value)) for value in values)

    def _inputs(self, u) -> dict[str | None, Array]:
        return {} if u is None else {column.name: u[k] for k, column in enumerate(self.columns.external)}

    def _joint(self, friction: Friction) -> AbstractSliding:
        return next(j for j in self.joints if isinstance(j, AbstractSliding) and j.name == friction.joint)

    def _respond(self, q, force, gamma):
        """Accelerations and multipliers under given forces, or under several at once in columns."""
        mass = jnp.diag(self.mass) if self._massless else self.mass
        return solve_kkt(mass, self.constraints.jacobian(q), force, gamma, redundant=self.redundant)

    def _ends(self, part: AbstractJoint | AbstractForce, q) -> tuple[Array, Array]:
        """The poses of the two bodies of a joint or force."""
        poses = self.poses(q)
        first, second = part.bodies
        return poses[first], poses[second]

    def _along(self, part: AbstractJoint | AbstractForce, measure, x: State):
        """A measure of two poses, its rate, and by body the direction in which it pulls."""
        ends = self._ends(part, x.q)
        s, rate = jax.jvp(measure, ends, self._ends(part, x.v))
        pulls = zip(part.bodies, jax.grad(measure, (0, 1))(*ends), strict=True)
        return s, rate, {name: pull for name, pull in pulls if name != GROUND}

    def _slip(self, friction: Friction, x: State):
        """How fast the surfaces of a joint slide, and the direction among all coordinates."""
        joint = self._joint(friction)
        _, rate, pulls = self._along(joint, lambda first, second: joint.slip(first, second, friction.radius), x)
        return rate, jnp.concatenate([pulls.get(body.name, jnp.zeros(3, x.q.dtype)) for body in self.bodies])


def _flat(triples):
    return jnp.stack([jnp.asarray(value, float) for triple in triples for value in triple])


def _concrete(value) -> bool:
    return not isinstance(value, Tracer)


def _list(names) -> str:
    return ", ".join(sorted(names)) or "none"


def _check_names(kind: str, names: list[str]):
    if not names and kind == "body":
        raise InputError("a mechanism without bodies: it needs at least one")
    for name in names:
        if not name or name == GROUND:
            raise InputError(f"a {kind} is named '{name}': choose another name")
        if names.count(name) > 1:
            raise InputError(f"more than one {kind} is named '{name}': every one needs its own name")
