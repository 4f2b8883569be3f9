"""The way of the training loss."""

import numpy as np
import plotly.graph_objects as go

from fnode.learn import Run
from fnode.report.figures import PREDICTED, TRUE, line, logarithmic, styled


def losses(run: Run) -> go.Figure:
    """The loss of every member over epochs or iterations; the chosen one stands out."""
    figure = go.Figure()
    members = [part.seeds[seed] for part, seed in run.members]
    others = [k for k in range(len(members)) if k != run.model.chosen]
    for count, k in enumerate([*others, run.model.chosen]):
        history, chosen = members[k].history, k == run.model.chosen
        name, colour = ("the member shown", PREDICTED) if chosen else ("the others", TRUE)
        epochs = np.arange(1, len(history) + 1)
        figure.add_trace(line(epochs, history, name, colour, width=2 if chosen else 1, legend=chosen or count == 0))
    figure.update_xaxes(title_text="iteration" if members[0].ranking else "epoch")
    logarithmic(figure, "training loss")
    figure.update_layout(showlegend=len(members) > 1)
    return styled(figure, height=360)
