"""The page of `fnode control`: the paper's five panels, the swing-ups, and the cart-pole in motion."""

import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.control import ClosedLoop, Controlled
from fnode.mechanisms import GROUND, Body, Mechanism, Prismatic, Revolute
from fnode.report.animation import animation
from fnode.report.document import Picture, Section, render
from fnode.report.figures import OTHER, PREDICTED, THIRD, label, styled
from fnode.systems import ForcedCartPole, Parameter
from fnode.trajectory import Column, Columns, State, Trajectory

COLUMNS = ForcedCartPole.columns
LOOKS = {"analytic": (PREDICTED, "solid", 4), "learned": (OTHER, "dot", 2), "exact_labels": (THIRD, "dash", 2)}

MOVING = ("analytic", "learned")


def control_page(scores: dict, found: dict[str, Controlled], settings: str, *, length: float) -> str:
    """The report as HTML text; `length` is that of the pole."""
    balance = {name: one.balance for name, one in found.items()}
    swings = {name: [swing for swing in one.swings if swing is not None] for name, one in found.items()}
    first = {name: several[0] for name, several in swings.items() if several}
    up = {name: swing for name, swing in first.items() if name in MOVING}
    sections = [
        Section("summary", "Summary"),
        Section("linear", "Linear models at upright"),
        Section("balancing", "Balancing", (
            Picture("Balancing", panels(balance)),
            Picture("The cart-pole, balanced", moving({name: balance[name] for name in MOVING}, length)),
        )),
        Section("swings", "Swing-up", (
            *((Picture("Swing-up", panels(first)),) if first else ()),
            *((Picture("The cart-pole, swung up", moving(up, length)),) if up else ()),
        )) if scores["control"]["analytic"]["swing_up"] else None,
        Section("settings", "Settings"),
    ]  # fmt: skip
    title = f"{scores['system']}: model predictive control"
    shown = [section for section in sections if section]
    return render("control.html", title, shown, scores=scores, names=_names(COLUMNS.state), settings=settings)


def panels(loops: dict[str, ClosedLoop]) -> go.Figure:
    """The paper's figure: theta, x, their rates, and the input."""
    columns = (*COLUMNS.state, *COLUMNS.inputs)
    order = [_names(columns).index(name) for name in ("theta", "x", "d_theta", "d_x", "u")]
    places = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
    specs = [[{}, {}], [{}, {}], [{"colspan": 2}, None]]
    figure = make_subplots(3, 2, specs=specs, vertical_spacing=0.1, horizontal_spacing=0.12)
    for name, loop in loops.items():
        colour, dash, width = LOOKS[name]
        values = np.concatenate([loop.states, np.concatenate([loop.inputs, loop.inputs[-1:]])], axis=1)
        for i, (row, col) in zip(order, places, strict=True):
            line = {"color": colour, "dash": dash, "width": width}
            if columns[i] in COLUMNS.inputs:
                line["shape"] = "hv"  # held between samples
            trace = go.Scatter(
                x=loop.ts, y=values[:, i], mode="lines", name=shown(name), legendgroup=name, line=line,
                showlegend=row == col == 1,
            )  # fmt: skip
            figure.add_trace(trace, row=row, col=col)
    for i, (row, col) in zip(order, places, strict=True):
        figure.update_yaxes(title_text=label(columns[i]), row=row, col=col)
        figure.update_xaxes(title_text="t (s)", row=row, col=col)
    return styled(figure, height=760)


def moving(loops: dict[str, ClosedLoop], length: float) -> go.Figure:
    """The cart-pole as it was controlled, one panel per model."""
    return animation(cart_pole_mechanism(length), {shown(name): bodies(loop, length) for name, loop in loops.items()})


def cart_pole_mechanism(
    length: float, *, cart: Parameter = 1.0, pole: Parameter = 1.0, gravity: Parameter = 0.0
) -> Mechanism:
    """A cart on a track and a pole hinged to it; the pole's frame is at its end, where its mass is."""
    return Mechanism(
        bodies=(Body("cart", cart, 0.0, (0.0, 0.0, 0.0)), Body("pole", pole, 0.0, (0.0, length, 0.0))),
        joints=(
            Prismatic("track", (GROUND, "cart")),
            Revolute("hinge", ("cart", "pole"), ((0.0, 0.0), (0.0, -length))),
        ),
        gravity=gravity,
    )


def bodies(loop: ClosedLoop, length: float) -> Trajectory:
    """Places of cart and pole: the pole's frame is at its end, and its angle counts from upright, clockwise."""
    x, theta = loop.states[:, 0], loop.states[:, 1]
    still = np.zeros_like(x)
    q = np.stack([x, still, still, x + length * np.sin(theta), length * np.cos(theta), -theta], axis=1)
    columns = Columns(tuple(Column(f"{name}_{body}") for body in ("cart", "pole") for name in ("x", "y", "theta")))
    return Trajectory(jnp.asarray(loop.ts), State(jnp.asarray(q), jnp.zeros_like(q)), columns=columns)


def shown(name: str) -> str:
    """How a controller's model is called on the page."""
    return {"exact_labels": "learned from analytic labels"}.get(name, name)


def _names(columns) -> list[str]:
    return [column.name for column in columns]
