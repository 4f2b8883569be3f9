"""The paper's drawings of its systems, made from the mechanisms themselves: bodies, joints, springs and drives."""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from fnode.bench.experiment import AbstractExperiment, Drawing
from fnode.mechanisms import GROUND, Body, Force, Mechanism, Prismatic, Revolute, Spring
from fnode.report.animation import shapes
from fnode.report.control import cart_pole_mechanism
from fnode.systems import CartPole, DoublePendulum, ForcedCartPole, SliderCrank, TripleMassSpringDamper

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, BODY, PULL = "#1a1a1a", "#8a8a8a", "#cfe3f2", "#c0392b"
SPACING = 2.0  # of the masses of a chain at rest, in metres


@dataclasses.dataclass(frozen=True)
class Angle:
    """An angle to be drawn: where, from which direction, how far (in radians, counterclockwise), and its name."""

    at: tuple[float, float]
    begin: float
    turn: float
    name: str


@dataclasses.dataclass(frozen=True)
class Sketch:
    """A mechanism in one pose, with what a reader wants to know of it.

    `pose` gives all coordinates from the system's own, so that the drawing can be held against the system's equations.
    """

    mechanism: Mechanism
    pose: Callable
    q: tuple[float, ...]
    labels: tuple[tuple[str, float, float], ...]  # text and place
    wall: tuple[float, float] | None = None  # where springs to the ground end
    angles: tuple[Angle, ...] = ()


class Schematics(AbstractExperiment):
    """Nothing is computed but places."""

    name = "schematics"
    title = "The systems"
    paper = "Fig. 7, Fig. 10, Fig. 13, Fig. 21"

    def cells(self, seeds, quick):
        return []

    def present(self, results):
        return []

    def figures(self, results):
        wanted = {
            "fig07_triple_mass_spring_damper": ("Fig. 7: three masses in a row, each with spring and damper.", chain()),
            "fig10_double_pendulum": ("Fig. 10: double pendulum at its start.", double_pendulum()),
            "fig13_slider_crank": (
                "Fig. 13: slider-crank; dampers act in the pins, friction between slider and guide.",
                slider_crank(),
            ),
            "fig21_cart_pole": ("Fig. 21: cart-pole at its start.", cart_pole()),
        }
        return [Drawing(name, caption, drawn(sketch)) for name, (caption, sketch) in wanted.items()]


def chain() -> Sketch:
    """The chain of three: displacements are counted from where the springs are at rest."""
    system = TripleMassSpringDamper()
    places = SPACING * np.arange(1, 4)
    bodies = tuple(Body(f"mass {k + 1}", system.masses[k], 1.0, (places[k], 0.0, 0.0)) for k in range(3))
    ends = (GROUND, *(body.name for body in bodies))
    springs = tuple(
        Spring(
            (ends[k], ends[k + 1]),
            stiffness=system.stiffnesses[k],
            rest=SPACING,
            damping=system.dampings[k],
            axis=(1.0, 0.0),
        )
        for k in range(3)
    )
    guides = tuple(Prismatic(f"guide {k + 1}", (GROUND, body.name)) for k, body in enumerate(bodies))
    labels = tuple((f"$m_{k + 1}$\n{system.masses[k]:g} kg", places[k], 0.0) for k in range(3))

    def pose(q):
        return jnp.stack(
            [jnp.stack([q[k] + places[k], jnp.zeros_like(q[k]), jnp.zeros_like(q[k])]) for k in range(3)]
        ).ravel()

    return Sketch(Mechanism(bodies, guides, springs, gravity=0.0), pose, (0.0, 0.0, 0.0), labels, wall=(0.0, 0.0))


def double_pendulum() -> Sketch:
    system = DoublePendulum()
    one, two = system.protocol.q
    l1, l2 = float(system.length1), float(system.length2)

    def pose(q):
        x, y = l1 * jnp.sin(q[0]), -l1 * jnp.cos(q[0])
        return jnp.stack([x, y, q[0], x + l2 * jnp.sin(q[1]), y - l2 * jnp.cos(q[1]), q[1]])

    start = np.asarray(pose(jnp.array([one, two])))
    bodies = (Body("first", system.mass1, 0.0, tuple(start[:3])), Body("second", system.mass2, 0.0, tuple(start[3:])))
    pins = (
        Revolute("pivot", (GROUND, "first"), ((0.0, 0.0), (0.0, l1))),
        Revolute("elbow", ("first", "second"), ((0.0, 0.0), (0.0, l2))),
    )
    labels = (
        (rf"$m_1$ = {system.mass1:g} kg, $L_1$ = {l1:g} m", 0.35, 0.08),
        (rf"$m_2$ = {system.mass2:g} kg, $L_2$ = {l2:g} m", 1.62, -0.02),
    )
    down = -math.pi / 2
    angles = (
        Angle((0.0, 0.0), down, one, r"$\theta_1$"),
        Angle((float(start[0]), float(start[1])), down, two, r"$\theta_2$"),
    )
    return Sketch(Mechanism(bodies, pins, gravity=system.gravity), pose, (one, two), labels, angles=angles)


def slider_crank() -> Sketch:
    system = SliderCrank()
    angle = 0.8
    labels = (
        (rf"crank, $2r$ = {2 * system.r:g} m", -0.35, 1.1),
        (rf"rod, $2l$ = {2 * system.l:g} m", 4.0, 1.1),
        (r"slider, friction $\mu$", 5.1, -1.0),
    )
    angles = (Angle((0.0, 0.0), 0.0, angle, r"$\theta_1$"),)
    return Sketch(system.mechanism, system.pose, (angle,), labels, wall=(7.6, 0.0), angles=angles)


def cart_pole() -> Sketch:
    system = ForcedCartPole()
    length = float(system.length)
    mechanism = cart_pole_mechanism(length, cart=system.cart, pole=system.pole, gravity=system.gravity)
    mechanism = dataclasses.replace(mechanism, forces=(Force((GROUND, "cart"), input="u"),))

    def pose(q):
        still = jnp.zeros_like(q[0])
        return jnp.stack([q[0], still, still, q[0] + length * jnp.sin(q[1]), length * jnp.cos(q[1]), -q[1]])

    x, theta = CartPole.protocol.q
    labels = (
        (rf"cart, $M$ = {system.cart:g} kg", x, -0.1),
        (rf"pole, $m$ = {system.pole:g} kg, $l$ = {length:g} m", x + 0.36, 0.22),
    )
    angles = (Angle((x, 0.0), math.pi / 2, -theta, r"$\theta$"),)
    return Sketch(mechanism, pose, (x, theta), labels, angles=angles)


def drawn(sketch: Sketch):
    """The sketch as a figure, in metres."""
    from matplotlib.figure import Figure  # slow to import, and only a drawing needs it

    mechanism, q = sketch.mechanism, np.asarray(sketch.pose(jnp.asarray(sketch.q, float)))
    parts = shapes(mechanism, q[None])
    points = np.concatenate([part.places[0] for part in parts] + ([np.array([sketch.wall])] if sketch.wall else []))
    size = max(np.ptp(points, axis=0))
    figure = Figure(figsize=(7.2, 3.9), layout="constrained")
    axes = figure.subplots()
    carried = {joint.bodies[1] for joint in mechanism.joints if isinstance(joint, Prismatic)}
    _ground(axes, mechanism, points, size)
    for part in parts:
        _part(axes, part, boxed=part.name in carried, size=size)
    for k, body in enumerate(mechanism.bodies):
        if body.inertia == 0 and body.name not in carried:  # a point mass
            axes.plot(*q[3 * k : 3 * k + 2], marker="o", markersize=13, color=BODY, markeredgecolor=INK, zorder=4.5)
    for spring in mechanism.forces:
        if isinstance(spring, Spring):
            _spring(axes, mechanism, spring, q, sketch.wall, size)
        elif isinstance(spring, Force):
            x, y = q[:2]
            axes.annotate(
                "",
                (x - 0.09 * size, y),
                (x - 0.3 * size, y),
                arrowprops={"arrowstyle": "-|>", "color": PULL, "linewidth": 1.8},
            )
            axes.text(x - 0.2 * size, y + 0.03 * size, f"${spring.input}$ (N)", color=PULL, ha="center")
    for angle in sketch.angles:
        _angle(axes, angle, size)
    for text, x, y in sketch.labels:
        axes.text(x, y, text, ha="center", va="center", fontsize=9, zorder=6)
    left = points[:, 0].min() - (0.22 if mechanism.gravity else 0.0) * size
    top = points[:, 1].max() + 0.12 * size
    if mechanism.gravity:
        axes.annotate(
            "", (left, top - 0.22 * size), (left, top - 0.06 * size), arrowprops={"arrowstyle": "-|>", "color": SOFT}
        )
        axes.text(left, top - 0.03 * size, rf"$g$ = {mechanism.gravity:g} m/s²", ha="center", color=SOFT, fontsize=9)
    axes.set_aspect("equal")
    axes.set_xlim(left - (0.2 if mechanism.gravity else 0.1) * size, points[:, 0].max() + 0.3 * size)
    axes.set_ylim(points[:, 1].min() - 0.25 * size, top + 0.03 * size)
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def _ground(axes: "Axes", mechanism: Mechanism, points: np.ndarray, size: float) -> None:
    """A line under everything that slides on the ground."""
    if any(isinstance(joint, Prismatic) and GROUND in joint.bodies for joint in mechanism.joints):
        low, high = points[:, 0].min() - 0.05 * size, points[:, 0].max() + 0.05 * size
        y = -0.06 * size
        axes.plot([low, high], [y, y], color=INK, linewidth=1.2)
        for x in np.linspace(low, high - 0.02 * size, 40):
            axes.plot([x, x - 0.02 * size], [y, y - 0.02 * size], color=SOFT, linewidth=0.7)


def _part(axes: "Axes", part, *, boxed: bool, size: float) -> None:
    from matplotlib.patches import Circle, Polygon, Rectangle

    places = part.places[0]
    centre = places.mean(axis=0)
    if boxed:
        centre = (places.min(axis=0) + places.max(axis=0)) / 2
        half = 0.06 * size
        axes.add_patch(
            Rectangle((centre[0] - half, centre[1] - half), 2 * half, 2 * half, facecolor=BODY, edgecolor=INK, zorder=3)
        )
    elif part.look == "pin":
        axes.add_patch(Circle((places[0, 0], places[0, 1]), 0.012 * size, facecolor="white", edgecolor=INK, zorder=5))
    elif part.look == "body":
        axes.plot(places[:, 0], places[:, 1], color=INK, linewidth=4, solid_capstyle="round", zorder=4)
        axes.plot(places[:, 0], places[:, 1], color=BODY, linewidth=2.2, solid_capstyle="round", zorder=4)
    elif part.name == GROUND:
        axes.add_patch(Polygon(places, facecolor=SOFT, edgecolor=INK, zorder=2))


def _spring(axes: "Axes", mechanism: Mechanism, spring: Spring, q: np.ndarray, wall, size: float) -> None:
    """A zigzag, and a damper below it where there is one."""
    poses = mechanism.poses(jnp.asarray(q))
    first, second = (np.asarray(poses[name][:2]) if name != GROUND else np.array(wall) for name in spring.bodies)
    if spring.bodies[0] == GROUND:
        axes.plot([wall[0]] * 2, [wall[1] - 0.06 * size, wall[1] + 0.12 * size], color=INK, linewidth=2)
    along = np.sign(second[0] - first[0])
    half = 0.06 * size
    start = first + (0.0 if spring.bodies[0] == GROUND else along * half) * np.array([1.0, 0.0])
    end = second - along * half * np.array([1.0, 0.0])
    damped = bool(np.any(np.asarray(spring.damping)))
    lift = 0.025 * size if damped else 0.0
    turns = np.linspace(0.15, 0.85, 13)
    zigzag = np.concatenate([[0.0], np.where(np.arange(13) % 2, 1.0, -1.0), [0.0]])
    zigzag[[1, -2]] = 0.0
    x = start[0] + (end[0] - start[0]) * np.concatenate([[0.0], turns, [1.0]])
    axes.plot(x, start[1] + lift + 0.018 * size * zigzag, color=INK, linewidth=1.2, zorder=2)
    text = rf"$k$ = {float(spring.stiffness):g} N/m"
    if damped:
        middle, y, reach = (start[0] + end[0]) / 2, start[1] - 0.03 * size, 0.03 * size
        axes.plot([start[0], middle - reach], [y, y], color=INK, linewidth=1.2)
        axes.plot([middle - 0.3 * reach, end[0]], [y, y], color=INK, linewidth=1.2)
        axes.plot(
            [middle + reach, middle - reach, middle - reach, middle + reach],
            y + 0.016 * size * np.array([1, 1, -1, -1]),
            color=INK,
            linewidth=1.2,
        )
        axes.plot([middle - 0.3 * reach] * 2, [y - 0.01 * size, y + 0.01 * size], color=INK, linewidth=1.6)
        text += f"\n$d$ = {float(spring.damping):g} N s/m"
    axes.text((start[0] + end[0]) / 2, start[1] + 0.065 * size, text, ha="center", va="bottom", fontsize=8)


def _angle(axes: "Axes", angle: Angle, size: float) -> None:
    from matplotlib.patches import Arc

    radius, (x, y) = 0.14 * size, angle.at
    far = 1.5 * radius
    axes.plot(
        [x, x + far * math.cos(angle.begin)],
        [y, y + far * math.sin(angle.begin)],
        color=SOFT,
        linestyle="--",
        linewidth=1,
    )
    low, high = sorted((angle.begin, angle.begin + angle.turn))
    axes.add_patch(Arc((x, y), 2 * radius, 2 * radius, theta1=math.degrees(low), theta2=math.degrees(high), color=SOFT))
    middle = angle.begin + angle.turn / 2
    axes.text(
        x + 1.3 * radius * math.cos(middle), y + 1.3 * radius * math.sin(middle), angle.name, ha="center", va="center"
    )
