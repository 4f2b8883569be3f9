"""The pictures of a mechanism whose independent coordinates were learned: the others, the constraints, the motion."""

import dataclasses
import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go

from fnode.constraints import Holonomic
from fnode.errors import InputError
from fnode.learn import Run, completed
from fnode.report.animation import animation
from fnode.report.document import Picture, stacked
from fnode.report.figures import OTHER, PREDICTED, THIRD, line, logarithmic, styled
from fnode.report.motion import motion, shading
from fnode.trajectory import Trajectory

LEVELS = {"position": (PREDICTED, "solid"), "velocity": (OTHER, "dash"), "acceleration": (THIRD, "dot")}


def mechanism_pictures(run: Run) -> list[Picture]:
    """The last recording in all coordinates; nothing where the rollout left every pose that the mechanism has."""
    part, seed = run.chosen
    number = len(part.recordings) - 1
    recording = part.recordings[number]
    try:
        predicted = completed(run, part, number, seed)
    except InputError:
        return []
    assert run.system is not None
    assert run.system.constraints is not None
    which = f"Trajectory {recording.name}"
    note = f"{which}: the largest residual at every sample of the rollout, in the units of the constraints."
    pictures = [Picture("Constraint residuals", constraint_residuals(run.system.constraints, predicted), note)]
    if run.constrained:
        truth = run.complete(recording.truth)
        whole = dataclasses.replace(recording, truth=truth)
        note = f"{which}: solved from the constraints at every sample. {shading(recording)}"
        draw = functools.partial(motion, whole, predicted.x)
        pictures.extend(stacked("All coordinates", note, truth.columns.coordinates, draw))
        mechanism = getattr(run.system, "mechanism", None)
        if mechanism is not None:
            moving = animation(mechanism, {"truth": truth, "model": predicted})
            pictures.append(Picture("The mechanism in motion", moving, f"{which}, true and learned."))
    return pictures


def constraint_residuals(constraints: Holonomic, motion: Trajectory) -> go.Figure:
    """The largest residual of the constraints over time, at each level that is known."""
    a = jnp.full_like(motion.x.v, jnp.nan) if motion.a is None else motion.a
    levels = eqx.filter_jit(eqx.filter_vmap(constraints.residuals))(motion.x.q, motion.x.v, a)
    figure = go.Figure()
    for (name, (colour, dash)), level in zip(LEVELS.items(), levels, strict=True):
        size = np.max(np.abs(np.asarray(level)), axis=1)
        if np.any(np.isfinite(size)):
            shown = np.where(size > 0, size, np.nan)  # a logarithmic axis has no zero
            figure.add_trace(line(motion.ts, shown, name, colour, dash=dash))
    figure.update_xaxes(title_text="t (s)")
    logarithmic(figure, "largest residual")
    return styled(figure, height=360)
