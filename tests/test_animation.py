"""Laws of animated mechanisms: bodies hang together in every frame, and the picture stays small."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fnode.errors import InputError
from fnode.mechanisms import GROUND, Body, Distance, Fixed, Mechanism, PointOnLine, Prismatic, Revolute
from fnode.mechanisms.bodies import place
from fnode.report.animation import MOST_FRAMES, animation
from fnode.report.document import Picture
from fnode.systems.slider_crank import SliderCrank
from fnode.trajectory import State, Trajectory


def moving(mechanism, pose, samples, turn=6.0):
    """A motion whose poses are known functions of an angle."""
    ts = jnp.linspace(0.0, 15.0, samples)
    q = jax.vmap(pose)(turn * jnp.linspace(0.0, 1.0, samples))
    return mechanism, Trajectory(ts, State(q, jnp.zeros_like(q)), columns=mechanism.columns)


def slider_crank(samples):
    system = SliderCrank()
    return moving(system.mechanism, lambda angle: system.pose(angle[None]), samples)


def pendulum(samples):
    mechanism = Mechanism((Body("bob", 1.0, 0.1),), (Revolute("pivot", (GROUND, "bob"), ((1.0, 2.0), (0.0, 0.5))),))
    return moving(mechanism, lambda a: jnp.array([1 + 0.5 * jnp.sin(a), 2 - 0.5 * jnp.cos(a), a]), samples)


def small_plate(samples):
    """A plate of a millimetre: it is pinned to the ground, a bead is welded to it, a block slides along it, and a bob
    hangs from it by a rod.
    """
    corner, along, size = (1e-3, 0.0), (0.0, 1.0), 1e-3
    joints = (
        Revolute("pivot", ("plate", GROUND)),
        Fixed("weld", ("plate", "bead"), (corner, (0.0, 0.0))),
        Prismatic("slot", ("plate", "block"), axis=along),
        PointOnLine("groove", ("plate", "bob"), ((0.0, 2e-3), (0.0, 0.0))),
        Distance("rod", ("plate", "bob"), (corner, (0.0, 0.0)), length=math.sqrt(5) * size),
    )

    def pose(a):
        plate = jnp.array([0.0, 0.0, a])
        at = [(corner, a), ((0.0, size * jnp.sin(3 * a)), a), ((0.0, 2e-3), 2 * a)]
        return jnp.concatenate([plate, *(jnp.append(place(plate, point), angle) for point, angle in at)])

    bodies = tuple(Body(name, 1.0, 0.1) for name in ("plate", "bead", "block", "bob"))
    return moving(Mechanism(bodies, joints), pose, samples)


MECHANISMS = {"slider-crank": slider_crank, "pendulum": pendulum, "small plate": small_plate}


def drawn(trace):
    """The points a drawn body shows: its corners and, for a square, their middle."""
    corners = np.stack([trace.x, trace.y], axis=1)
    return np.concatenate([corners, corners[:4].mean(axis=0)[None]])


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
def test_every_frame_holds_each_joint_at_a_point_of_both_bodies(make):
    mechanism, motion = make(20)
    figure: Any = animation(mechanism, {"truth": motion, "model": motion})
    size = np.ptp(figure.layout.xaxis.range)
    poses = jax.vmap(mechanism.poses)(motion.x.q)
    joints: tuple[Any, ...] = mechanism.joints
    for joint in joints:
        for body, point in zip(joint.bodies, joint.points, strict=True):
            places = jax.vmap(lambda pose, point=point: place(pose, point))(poses[body])
            for frame, there in zip(figure.frames, np.asarray(places), strict=True):
                traces = [t for k, t in zip(frame.traces, frame.data, strict=True) if figure.data[k].name == body]
                assert len(traces) == (0 if body == GROUND else 2)
                for trace in traces:
                    assert np.linalg.norm(drawn(trace) - there, axis=1).min() < 1e-4 * size


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("samples", [1, 4500])
def test_frames_and_size_are_bounded_and_nothing_leaves_the_axes(make, samples):
    mechanism, motion = make(samples)
    picture = Picture("Animation", animation(mechanism, {"truth": motion, "model": motion}))
    figure: Any = picture.figure
    assert min(samples, MOST_FRAMES / 2) <= len(figure.frames) <= MOST_FRAMES
    times = [float(frame.name) for frame in figure.frames]
    assert times == sorted(set(times))
    np.testing.assert_allclose(
        times, motion.ts[:: -(-samples // MOST_FRAMES)], atol=np.diff(times).min(initial=1.0) / 2
    )
    assert len(picture.json) < 500_000
    for frame in figure.frames:
        for trace in frame.data:
            for axis, values in ((figure.layout.xaxis, trace.x), (figure.layout.yaxis, trace.y)):
                assert axis.range[0] <= min(values)
                assert max(values) <= axis.range[1]


def test_a_motion_that_got_lost_leaves_gaps_and_the_other_one_whole():
    mechanism, motion = slider_crank(20)
    lost = Trajectory(motion.ts, State(motion.x.q.at[10:].set(jnp.nan), motion.x.v), columns=motion.columns)
    picture = Picture("Animation", animation(mechanism, {"truth": motion, "model": lost}))
    assert "NaN" not in picture.json
    alone: Any = animation(mechanism, {"truth": motion})
    both: Any = picture.figure
    assert alone.layout.xaxis.range == both.layout.xaxis.range


def test_motions_that_do_not_fit_are_refused():
    mechanism, motion = slider_crank(5)
    other, swing = pendulum(5)
    for motions in ({}, {"truth": swing}, {"truth": motion, "model": motion[:4]}):
        with pytest.raises(InputError, match=r"give|sample"):
            animation(mechanism, motions)
    assert animation(other, {"truth": swing}).frames
