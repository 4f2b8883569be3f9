"""Laws of planar mechanisms: known motions, energy, two routes, published references, refusals."""

import dataclasses
import math
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fnode.constraints import given_partition
from fnode.errors import InputError
from fnode.mechanisms import (
    GROUND,
    Assembly,
    Body,
    Distance,
    Fixed,
    Force,
    Friction,
    Mechanism,
    PointOnLine,
    Prismatic,
    Projecting,
    Revolute,
    Spring,
    Torque,
    Torsion,
    assemble,
    mechanism_from,
    read_mechanism,
    simulate,
)
from fnode.systems.slider_crank import SliderCrank
from fnode.trajectory import State

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT.parent / "shared" / "data" / "reference"
FOUR_BAR = read_mechanism(ROOT / "examples" / "four_bar.toml")
SLOPE = math.pi / 6
DOWNHILL = (math.cos(SLOPE), -math.sin(SLOPE))


def largest(values):
    return float(np.max(np.abs(values)))


def with_rate(mechanism, **rates):
    """The mechanism whose bodies start with other rates."""
    bodies = [dataclasses.replace(body, rate=rates.get(body.name, body.rate)) for body in mechanism.bodies]
    return dataclasses.replace(mechanism, bodies=tuple(bodies))


def block(*, forces=(), friction=(), gravity=9.81, rate=(0.0, 0.0, 0.0)):
    """A block on a slope of 30 degrees."""
    return Mechanism(
        (Body("block", 2.0, 0.3, pose=(0.0, 0.0, -SLOPE), rate=rate),),
        (Prismatic("slope", (GROUND, "block"), axis=DOWNHILL, angle=-SLOPE),),
        forces,
        friction,
        gravity=gravity,
    )


def pendulum(joint, *, inertia=0.0):
    """A bob on a joint 2 m away from it, at 1 rad from hanging down."""
    return Mechanism((Body("bob", 3.0, inertia, pose=(2 * math.sin(1.0), -2 * math.cos(1.0), 1.0)),), (joint,))


def acceleration(mechanism, u=None):
    """At a start that obeys the joints as it stands."""
    assert largest(mechanism.phi(mechanism.start.q)) < 1e-12
    return np.asarray(eqx.filter_jit(lambda m, x, u: m.acceleration(0.0, x, u))(mechanism, mechanism.start, u))


def test_every_force_gives_its_textbook_acceleration():
    along = np.array([*DOWNHILL, 0.0])
    weight = 9.81 * math.sin(SLOPE)
    assert largest(acceleration(block()) - weight * along) < 1e-13
    moving = tuple(3.0 * part for part in (*DOWNHILL, 0.0))
    forces = {
        "spring": (Spring((GROUND, "block"), stiffness=5.0, rest=-0.7, axis=DOWNHILL), -5.0 * 0.7),
        "spring between points": (
            Spring((GROUND, "block"), ((-DOWNHILL[0], -DOWNHILL[1]), (0.0, 0.0)), 5.0, 0.4),
            -3.0,
        ),
        "damper": (Spring((GROUND, "block"), damping=0.2, axis=DOWNHILL), -0.6),
        "push": (Force((GROUND, "block"), axis=(1.0, 0.0), value=4.0), 4.0 * math.cos(SLOPE)),
    }
    for name, (force, expected) in forces.items():
        found = acceleration(block(forces=(force,), gravity=0.0, rate=moving))
        assert largest(found - expected / 2.0 * along) < 1e-13, name
    wheel = Mechanism(
        (Body("wheel", 1.0, 0.5, pose=(0.0, 0.0, 0.3), rate=(0.0, 0.0, 2.0)),),
        (Revolute("axle", (GROUND, "wheel")),),
        (Torsion((GROUND, "wheel"), stiffness=4.0, rest=0.1, damping=0.5), Torque((GROUND, "wheel"), value=3.0)),
    )
    assert abs(float(acceleration(wheel)[2]) - (3.0 - 4.0 * 0.2 - 0.5 * 2.0) / 0.5) < 1e-13


PENDULA = {
    "revolute": pendulum(Revolute("pin", (GROUND, "bob"), ((0.0, 0.0), (0.0, 2.0))), inertia=0.5),
    "distance": pendulum(Distance("rod", (GROUND, "bob"), length=2.0), inertia=0.5),
}


@pytest.mark.parametrize("name", PENDULA)
def test_pendula_swing_as_they_should(name):
    inertia = 3.0 * 4.0 + (0.5 if name == "revolute" else 0.0)
    angular = -3.0 * 9.81 * 2.0 * math.sin(1.0) / inertia
    a = acceleration(PENDULA[name])
    assert largest(a[:2] - 2.0 * angular * np.array([math.cos(1.0), math.sin(1.0)])) < 1e-12
    assert abs(float(a[2]) - (angular if name == "revolute" else 0.0)) < 1e-12


def test_a_weld_makes_two_bodies_one():
    bob = pendulum(Revolute("pin", (GROUND, "bob"), ((0.0, 0.0), (0.0, 2.0))), inertia=0.5)
    weld = Fixed("weld", ("bob", "patch"), ((0.5, 0.0), (0.0, 0.0)), angle=0.2)
    x, y = 2 * math.sin(1.0) + 0.5 * math.cos(1.0), -2 * math.cos(1.0) + 0.5 * math.sin(1.0)
    patched = dataclasses.replace(
        bob, bodies=(*bob.bodies, Body("patch", 1.0, 0.1, pose=(x, y, 1.2))), joints=(*bob.joints, weld)
    )
    moment = -9.81 * (3.0 * 2 * math.sin(1.0) + 1.0 * x)
    inertia = 3.0 * 4.0 + 0.5 + 0.1 + x**2 + y**2
    a = acceleration(patched)
    assert largest(a[[2, 5]] - moment / inertia) < 1e-12


def test_a_bodiless_inertia_is_no_obstacle_where_the_joint_holds_it():
    found = acceleration(pendulum(Revolute("pin", (GROUND, "bob"), ((0.0, 0.0), (0.0, 2.0)))))
    assert abs(float(found[2]) + 9.81 / 2.0 * math.sin(1.0)) < 1e-12


@pytest.mark.parametrize("speed", [3.0, -3.0])
def test_friction_on_a_slope_is_coulombs(speed):
    rubbing = block(friction=(Friction("slope", 0.3),), rate=(speed * DOWNHILL[0], speed * DOWNHILL[1], 0.0))
    expected = 9.81 * (math.sin(SLOPE) - math.copysign(0.3, speed) * math.cos(SLOPE))
    assert largest(acceleration(rubbing) - expected * np.array([*DOWNHILL, 0.0])) < 1e-12


def test_friction_and_multiplier_are_consistent():
    """A pin and a slide rub at once: each force is the coefficient times the multiplier that both forces cause."""
    radius = 0.1
    crank = SliderCrank(mu=0.4).mechanism
    both = dataclasses.replace(
        with_rate(crank, crank=(0.0, 0.0, 2.0)),
        friction=(Friction("guide", 0.4), Friction("crank pin", 0.2, radius=radius)),
    )
    assembly = assemble(dataclasses.replace(both, bodies=tuple(_turned(body) for body in both.bodies)))
    x, mechanism = assembly.start, assembly.mechanism

    @eqx.filter_jit
    def examined(mechanism, x):
        a, multipliers, rubbing = mechanism.dynamics(0.0, x)
        held = mechanism.constraints.jacobian(x.q).T @ multipliers
        return multipliers, rubbing, mechanism.mass * a + held - mechanism.applied(0.0, x) - rubbing

    multipliers, rubbing, imbalance = examined(mechanism, x)
    press = abs(float(multipliers[mechanism.rows("guide")][0]))
    pin = float(jnp.linalg.norm(multipliers[mechanism.rows("crank pin")]))
    assert abs(float(rubbing[6]) + 0.4 * press * math.tanh(float(x.v[6]) / 1e-3)) < 1e-9
    slip = radius * float(x.v[5] - x.v[2])
    assert abs(float(rubbing[5]) + radius * 0.2 * pin * math.tanh(slip / 1e-3)) < 1e-9
    assert largest(imbalance) < 1e-9


def _turned(body):
    """The slider-crank's bodies roughly where they are at a crank angle of 1 rad."""
    poses = {"crank": (0.54, 0.84, 1.0), "rod": (2.9, 0.84, -0.43), "slider": (4.7, 0.0, 0.0)}
    return dataclasses.replace(body, pose=poses[body.name])


def test_friction_without_a_consistent_branch_is_not_made_up():
    """Painleve's paradox: a leaning rod pushed over ground so rough that no contact force is possible."""

    def rod(speed):
        return Mechanism(
            (Body("rod", 1.0, 0.01, pose=(0.0, math.sin(1.0), 1.0), rate=(speed, 0.0, 0.0)),),
            (PointOnLine("contact", (GROUND, "rod"), ((0.0, 0.0), (-1.0, 0.0))),),
            friction=(Friction("contact", 5.0),),
        )

    dragged, pushed = acceleration(rod(1.0)), acceleration(rod(-1.0))
    assert bool(np.all(np.isfinite(dragged))) != bool(np.all(np.isfinite(pushed)))


def test_redundant_joints_change_nothing_but_the_multipliers():
    single = PENDULA["revolute"]
    pins = (*single.joints, dataclasses.replace(single.joints[0], name="pin again"))
    once, doubled = assemble(single), assemble(dataclasses.replace(single, joints=pins))
    assert doubled.mechanism.redundant
    assert not once.mechanism.redundant
    assert largest(np.asarray(doubled.start.q) - np.asarray(once.start.q)) < 1e-12
    x = State(once.start.q, jnp.array([2 * math.cos(1.0), 2 * math.sin(1.0), 1.0]))
    (a, multipliers, _), (same, shared, _) = (
        jax.tree.map(np.asarray, eqx.filter_jit(lambda m, x: m.dynamics(0.0, x))(assembly.mechanism, x))
        for assembly in (once, doubled)
    )
    assert largest(a - same) < 1e-9
    for pin in ("pin", "pin again"):
        assert largest(shared[doubled.mechanism.rows(pin)] - multipliers / 2) < 1e-8


def test_two_routes_agree_keep_constraints_and_energy_and_pass_dead_centres():
    """The rocker as independent coordinate is useless at both ends of its swing: the motion goes on all the same."""
    by_crank = assemble(FOUR_BAR)
    mechanism, start = by_crank.mechanism, by_crank.start
    rocker = given_partition(mechanism.constraints.jacobian(start.q), [8])
    ts = jnp.linspace(0.0, 10.0, 301)
    reference = simulate(by_crank, ts)
    others = [simulate(Assembly(mechanism, start, rocker), ts), simulate(by_crank, ts, route=Projecting())]
    assert float(reference.x.q[-1, 2]) > 2 * math.pi
    assert int(jnp.sum(jnp.diff(jnp.sign(reference.x.v[:, 8])) != 0)) > 10
    for motion in others:
        assert largest(motion.x.q - reference.x.q) < 1e-8
        assert largest(motion.x.v - reference.x.v) < 1e-8
    assert mechanism.conservative
    levels = jax.jit(jax.vmap(mechanism.constraints.residuals))
    energies = jax.jit(jax.vmap(lambda x: (mechanism.energy(x), mechanism.kinetic(x.q, x.v))))
    for motion in (reference, *others):
        assert max(map(largest, levels(motion.x.q, motion.x.v, motion.a))) < 1e-10
        energy, kinetic = map(np.asarray, energies(motion.x))
        assert largest(energy - energy[0]) < 1e-9 * kinetic.max()


def parallelogram(angle, rate):
    """A parallelogram linkage: flat, it may go on as a parallelogram or turn over."""
    c, s = math.cos(angle), math.sin(angle)
    bars = [Body(name, 1.0, 0.1, pose=(x + c / 2, s / 2, angle)) for name, x in (("crank", 0.0), ("rocker", 2.0))]
    return Mechanism(
        (
            dataclasses.replace(bars[0], rate=(0.0, 0.0, rate)),
            Body("coupler", 1.0, 0.3, pose=(1.0 + c, s, 0.0)),
            bars[1],
        ),
        (
            Revolute("A", (GROUND, "crank"), ((0.0, 0.0), (-0.5, 0.0))),
            Revolute("B", ("crank", "coupler"), ((0.5, 0.0), (-1.0, 0.0))),
            Revolute("C", ("coupler", "rocker"), ((1.0, 0.0), (0.5, 0.0))),
            Revolute("D", (GROUND, "rocker"), ((2.0, 0.0), (-0.5, 0.0))),
        ),
        gravity=0.0,
        independent=("theta_crank",),
    )


def test_a_singular_pose_stops_the_motion_and_says_when():
    with pytest.raises(InputError, match=r"beyond t = 0\.49: before t = 0\.5 the mechanism meets a singular pose"):
        simulate(parallelogram(math.pi - 0.99, 2.0), jnp.linspace(0.0, 1.0, 101))


def test_a_start_in_a_singular_pose_is_refused():
    with pytest.raises(InputError, match="starts in a singular pose"):
        assemble(parallelogram(0.0, 1.0))


def test_many_mechanisms_at_once_are_each_of_them():
    def forward(mass, length):
        crank = SliderCrank(masses=(1.0, mass, 1.0), l=length)
        return crank.mechanism.acceleration(0.0, crank.full(State(jnp.array([0.4]), jnp.array([1.0]))))

    masses, lengths = jnp.linspace(0.5, 2.0, 5), jnp.linspace(1.5, 3.0, 5)
    together = jax.jit(jax.vmap(forward))(masses, lengths)
    each = jnp.stack([jax.jit(forward)(mass, length) for mass, length in zip(masses, lengths, strict=True)])
    assert largest(together - each) < 1e-12


def test_inputs_reach_the_forces_they_are_named_in():
    mechanism = block(forces=(Force((GROUND, "block"), axis=DOWNHILL, input="push"),), gravity=0.0)
    assert [column.name for column in mechanism.columns.inputs] == ["push"]
    assert largest(acceleration(mechanism, jnp.array([6.0])) - 3.0 * np.array([*DOWNHILL, 0.0])) < 1e-13
    assert largest(acceleration(mechanism)) < 1e-13


def test_andrews_squeezing_mechanism_ends_where_the_literature_says():
    if not REFERENCE.exists():
        pytest.skip("the reference solutions are not here")
    reference = np.loadtxt(REFERENCE / "andrews_t0.03.txt")[:, 1]
    andrews = read_mechanism(ROOT / "examples" / "andrews.toml")
    motion = simulate(andrews, jnp.linspace(0.0, 0.03, 13), route=Projecting())

    def published(angles):
        first, second, gamma, fourth, delta, sixth, epsilon = angles[2::3]
        return jnp.stack([first, second - first, gamma, fourth - delta, delta, sixth - epsilon, epsilon])

    assert largest(published(motion.x.q[-1]) - reference[:7]) < 1e-7
    assert largest(published(motion.x.v[-1]) / reference[7:14] - 1) < 1e-5
    assert largest(published(motion.a[-1]) / reference[14:21] - 1) < 1e-4


def description(**changes):
    """A pendulum as a file would describe it, with changes."""
    content = {
        "body": [{"name": "bob", "mass": 1, "inertia": 0.1, "pose": [1, 0, 0]}],
        "joint": [{"name": "pin", "type": "revolute", "bodies": ["ground", "bob"], "points": [[0, 0], [-1, 0]]}],
    }
    return content | changes


def joint(**changes):
    return description(joint=[description()["joint"][0] | changes])


def body(**changes):
    return description(body=[description()["body"][0] | changes])


def extra(**second):
    return description(joint=[*description()["joint"], {"type": "revolute", "bodies": ["ground", "bob"]} | second])


BAD = {
    "contradicting constraints": (extra(name="hook", points=[[0, 3], [0, 0]]), "'pin', 'hook' stay open"),
    "impossible assembly": (
        extra(name="rope", type="distance", points=[[5, 0], [0, 0]], length=1.5),
        "'pin', 'rope' stay open",
    ),
    "no freedom": (joint(type="fixed"), "no freedom left: joints 'pin'"),
    "massless free body": (
        description(body=[*body()["body"], {"name": "ghost", "mass": 0, "inertia": 0}]),
        "body 'ghost' can move without moving any mass",
    ),
    "negative mass": (body(mass=-1), "body 'bob' has mass -1.0"),
    "negative inertia": (body(inertia=-0.1), "body 'bob' has inertia -0.1"),
    "missing body": (joint(bodies=["ground", "bib"]), "joint 'pin' names body 'bib'"),
    "same body": (joint(bodies=["bob", "bob"]), "joint 'pin' has body 'bob' at both ends"),
    "partition size": (description(independent=["x_bob", "y_bob"]), r"'x_bob', 'y_bob'\].*need 1"),
    "partition rank": (description(independent=["x_bob"]), r"'x_bob'\].*rank 1 of 2"),
    "partition name": (description(independent=["theta"]), "independent coordinate 'theta' does not exist"),
    "two of a name": (description(body=body()["body"] * 2), "more than one body is named 'bob'"),
    "no bodies": ({}, "without bodies"),
    "unknown joint": (joint(type="glue"), "unknown type of joint 'pin' 'glue'"),
    "no type": ({"body": body()["body"], "joint": [{"bodies": ["ground", "bob"]}]}, "joint 1 has no type"),
    "unknown key": (body(weight=3), "unknown key in body 'bob' 'weight'"),
    "unknown table": (description(spring=[]), "unknown key 'spring'"),
    "missing key": (description(body=[{"name": "bob", "mass": 1}]), "body 'bob' has no 'inertia'"),
    "text for a number": (body(mass="heavy"), "'mass' of body 'bob' must be a finite number, got heavy"),
    "not finite": (body(mass=math.inf), "'mass' of body 'bob' must be a finite number"),
    "short pose": (body(pose=[1, 0]), "'pose' of body 'bob' must be 3 finite numbers"),
    "one point": (joint(points=[[0, 0]]), "'points' of joint 'pin' must be two points"),
    "friction on what does not slide": (
        description(friction=[{"joint": "pun", "mu": 0.1}]),
        "friction on joint 'pun', which is not one that slides: choose from pin",
    ),
    "friction of a redundant joint": (
        extra(name="pin again", points=[[0, 0], [-1, 0]]) | {"friction": [{"joint": "pin", "mu": 0.1}]},
        "friction on joint 'pin': other joints hold the same freedom",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_mechanisms_are_refused_in_one_line(name):
    content, complaint = BAD[name]
    with pytest.raises(InputError, match=complaint) as caught:
        assemble(mechanism_from(content))
    assert "\n" not in str(caught.value)


def test_bad_files_are_refused_by_name(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("body = [")
    with pytest.raises(InputError, match=r"broken\.toml: is not a TOML file"):
        read_mechanism(broken)
    with pytest.raises(InputError, match=r"absent\.toml: cannot be read"):
        read_mechanism(tmp_path / "absent.toml")
