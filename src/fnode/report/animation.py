"""Mechanisms in motion: every body drawn through the points where joints hold it."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.errors import InputError
from fnode.mechanisms import GROUND, Distance, Mechanism, PointOnLine, Prismatic, Revolute
from fnode.mechanisms.bodies import place, unit
from fnode.report.figures import OTHER, PREDICTED, TRUE, styled
from fnode.trajectory import Trajectory

MOST_FRAMES = 150
COLOURS = (TRUE, PREDICTED, OTHER)
THIN = {"color": "rgba(127, 127, 127, 0.7)", "width": 1.5}  # a grey that shows on white and on black
SQUARE = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
SUPPORT = np.array([[0, 0], [-1, -1.6], [1, -1.6], [0, 0]])


@dataclasses.dataclass(frozen=True)
class Shape:
    """Points of one body; the places they take, in every pose shown; and what is drawn there."""

    name: str
    places: np.ndarray
    moving: bool = True
    look: str = "thin"

    def style(self, colour: str) -> dict[str, Any]:
        if self.look == "pin":
            return {"mode": "markers", "marker": {"color": colour, "size": 8}}
        area = self.places.shape[-2] > 2
        line = {"color": colour, "width": 2 if area else 5} if self.look == "body" else THIN
        return {"mode": "lines", "line": line, "fill": "toself" if area else "none"}


def animation(mechanism: Mechanism, motions: dict[str, Trajectory]) -> go.Figure:
    """Motions of a mechanism side by side, one frame for each time, which is the name of the frame.

    Each motion has `x, y, theta` of every body as its coordinates, and all have the same times. Long motions are
    thinned to `MOST_FRAMES` frames at most.
    """
    ts = _checked(mechanism, motions)
    shown = slice(None, None, -(-len(ts) // MOST_FRAMES))
    ts, q = ts[shown], np.concatenate([np.asarray(motion.x.q)[shown] for motion in motions.values()])
    drawn = shapes(mechanism, q)
    low, high = _extent([shape.places for shape in drawn])
    margin = 0.04 * max(high - low)
    decimals = 4 - math.floor(math.log10(max(high - low)))

    figure: Any = make_subplots(1, len(motions), subplot_titles=list(motions), horizontal_spacing=0.09)
    frames, moving = [[] for _ in ts], []
    for panel in range(len(motions)):
        colour = COLOURS[panel % len(COLOURS)]
        for shape in drawn:
            places = np.round(shape.places.reshape(len(motions), len(ts), -1, 2)[panel], decimals)
            if shape.moving:
                moving.append(len(figure.data))
                for frame, points in zip(frames, places, strict=True):
                    frame.append({"type": "scatter", **_xy(points)})
            trace = go.Scatter(
                **_xy(places[0]), name=shape.name, hoverinfo="name", showlegend=False, **shape.style(colour)
            )
            figure.add_trace(trace, row=1, col=panel + 1)

    figure.frames = [go.Frame(name=t, data=data, traces=moving) for t, data in zip(_clock(ts), frames, strict=True)]
    figure.update_xaxes(title_text="x (m)", range=[low[0] - margin, high[0] + margin])
    figure.update_yaxes(title_text="y (m)", range=[low[1] - margin, high[1] + margin])
    for panel in range(2, len(motions) + 1):
        figure.update_layout({f"xaxis{panel}_matches": "x", f"yaxis{panel}_matches": "y"})
    figure.update_layout(yaxis_scaleanchor="x")
    tall = (high - low + 2 * margin)[1] / (high - low + 2 * margin)[0] * 900 / len(motions)
    # In real time where the eye can follow, else as fast as it can.
    pause = float(np.clip(1000 * np.diff(ts).min(initial=1.0), 25, 60))
    return styled(figure, height=int(110 + np.clip(tall, 180, 480))).update_layout(meta={"milliseconds": pause})


def _clock(ts: np.ndarray) -> list[str]:
    """The times in seconds, with as many digits as tell them apart."""
    digits = max(0, math.ceil(-math.log10(np.diff(ts).min(initial=1.0)) - 1e-6))
    return [f"{t:.{digits}f}" for t in ts]


def shapes(mechanism: Mechanism, q: np.ndarray) -> list[Shape]:
    """What there is to draw, from back to front, with its places in the poses `q`."""
    poses = jax.jit(jax.vmap(mechanism.poses))(jnp.asarray(q))
    outlines = {body.name: _outline(mechanism, body.name) for body in mechanism.bodies}
    low, high = _extent([_places(poses[name], outline) for name, outline in outlines.items()])
    small = 0.025 * (max(high - low) or 1.0)

    thin, pins = [], []
    for joint in mechanism.joints:
        (first, second), (start, end) = joint.bodies, _points(joint)
        grounded = GROUND in (first, second)
        if isinstance(joint, PointOnLine | Prismatic):
            slip = jax.vmap(functools.partial(joint.slip, radius=0.0))
            slid = np.asarray(jax.jit(slip)(poses[first], poses[second]))
            slid = slid[np.isfinite(slid)]
            ends = np.array([slid.min() - 2 * small, slid.max() + 2 * small])
            guide = np.asarray(start) + ends[:, None] * np.asarray(unit(joint.axis))
            thin.append(Shape(joint.name, _places(poses[first], guide), moving=first != GROUND))
            continue
        if grounded:
            at = np.asarray(start if first == GROUND else end)
            thin.append(Shape(GROUND, _places(poses[GROUND], at + small * SUPPORT), moving=False))
        if isinstance(joint, Revolute):
            pins.append(Shape(joint.name, _places(poses[first], [start]), moving=not grounded, look="pin"))
        elif isinstance(joint, Distance):
            ends = [_places(poses[first], [start]), _places(poses[second], [end])]
            thin.append(Shape(joint.name, np.concatenate(ends, axis=1)))
    bodies = [
        Shape(name, _places(poses[name], small * SQUARE if len(outline) == 1 else outline), look="body")
        for name, outline in outlines.items()
    ]
    return thin + bodies + pins


def _outline(mechanism: Mechanism, name: str) -> np.ndarray:
    """The points where joints hold a body, in its own frame; with a single one, its centre of mass is the other end."""
    held = [
        p for joint in mechanism.joints for body, p in zip(joint.bodies, _points(joint), strict=True) if body == name
    ]
    points = np.unique(np.array(held, dtype=float).reshape(-1, 2), axis=0)
    if len(points) <= 1:
        points = np.unique(np.concatenate([points, np.zeros((1, 2))]), axis=0)
    if len(points) <= 2:
        return points
    around = points - points.mean(axis=0)
    points = points[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
    return np.concatenate([points, points[:1]])


def _points(joint: Any):
    """The point of each body that a joint holds; all kinds of joints have them, though their base does not say so."""
    return joint.points


def _places(poses, points) -> np.ndarray:
    """Where points of a body are, in all of its poses."""
    places = _every_place(poses, jnp.asarray(points, float))
    return np.asarray(places, dtype=float)  # single precision would not round to short numbers


@jax.jit
def _every_place(poses, points):
    return jax.vmap(jax.vmap(place, (None, 0)), (0, None))(poses, points)


def _extent(places: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    points = np.concatenate([part.reshape(-1, 2) for part in places])
    points = points[np.all(np.isfinite(points), axis=1)]
    return points.min(axis=0), points.max(axis=0)


def _xy(points: np.ndarray) -> dict[str, list]:
    """As lists, which are shorter than plotly's own encoding of rounded numbers; gaps where a motion got lost."""
    x, y = ([value if math.isfinite(value) else None for value in values] for values in points.T.tolist())
    return {"x": x, "y": y}


def _checked(mechanism: Mechanism, motions: dict[str, Trajectory]) -> np.ndarray:
    """The times that all motions share."""
    if not motions:
        raise InputError("got no motion to animate: give at least one, such as {'truth': trajectory}")
    needed = 3 * len(mechanism.bodies)
    ts = np.asarray(next(iter(motions.values())).ts)
    for name, motion in motions.items():
        if motion.x.q.shape[-1] != needed:
            raise InputError(
                f"motion '{name}' has {motion.x.q.shape[-1]} coordinates, but the mechanism's bodies have {needed}: "
                "give x, y and theta of every body"
            )
        if not np.array_equal(motion.ts, ts):
            raise InputError(
                f"motion '{name}' has other times than the first one: sample all motions at the same times"
            )
    return ts
