"""The page of `fnode differentiate`: how good the derivatives of a file are, before anything is learned."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.derivatives import Diagnosis, Labels, positions_only
from fnode.report.document import Picture, Section, render
from fnode.report.figures import OTHER, PREDICTED, TRUE, band, dots, label, line, styled
from fnode.trajectory import Trajectory

HEADINGS = (
    "trajectory",
    "coordinate",
    "method",
    "from",
    "noise",
    "freedom",
    "error",
    "eta'",
    "eta_z",
    "outliers",
    "bridged",
)
MOST_FREQUENCIES = 5000  # a spectrum is thinned late: its peaks are narrow


def row(name: str, coordinate: str, diagnosis: Diagnosis) -> tuple[str, ...]:
    """One line of the table of diagnostics."""

    def shown(value):
        return "-" if value is None else f"{value:.2g}"

    return (
        name,
        coordinate,
        diagnosis.method,
        diagnosis.source,
        shown(diagnosis.noise_relative),
        "-" if diagnosis.freedom is None else f"{diagnosis.freedom:.0f}",
        shown(diagnosis.error_relative),
        shown(diagnosis.eta_prime),
        shown(diagnosis.eta_z),
        str(len(diagnosis.outliers)),
        str(diagnosis.bridged),
    )


def differentiation(source: str, method: str, found: dict[str, tuple[Trajectory, Labels]]) -> str:
    """The page as HTML text: a table, and four panels per coordinate."""
    rows, pictures = [], []
    for name, (trajectory, labels) in found.items():
        for i, column in enumerate(trajectory.columns.coordinates):
            rows.append(row(name, column.name, labels.diagnostics[i]))
            several = f" of trajectory {name}" if len(found) > 1 else ""
            pictures.append(Picture(f"{column.name}{several}", panels(trajectory, labels, i)))
    values = {"source": source, "method": method, "headings": HEADINGS, "rows": rows}
    sections = [Section("summary", "Diagnostics"), Section("curves", "Derivatives", tuple(pictures))]
    return render("labels.html", f"Derivatives of {source}", sections, **values)


def panels(trajectory: Trajectory, labels: Labels, i: int) -> go.Figure:
    """Signal, derivative with its band, residuals and spectrum of one coordinate."""
    columns = trajectory.columns
    from_positions = columns.first_order or positions_only(trajectory)
    measured_in = columns.coordinates[i] if from_positions else columns.velocities[i]
    rate_in = measured_in.rate if columns.first_order else columns.accelerations[i]
    ts = np.asarray(trajectory.ts)
    measured = np.asarray((trajectory.x.q if from_positions else trajectory.x.v)[:, i])
    smooth = labels.q if from_positions else labels.v
    rate = labels.rate.value[:, i]
    figure = make_subplots(2, 2, vertical_spacing=0.18, horizontal_spacing=0.12)
    figure.add_trace(dots(ts, measured, "samples", TRUE), 1, 1)
    if smooth is not None:
        figure.add_trace(line(ts, smooth.value[:, i], "curve", PREDICTED), 1, 1)
        figure.add_trace(dots(ts, measured - smooth.value[:, i], "residual", OTHER), 2, 1)
    else:
        note = {"text": "this method passes through every sample", "xref": "x3 domain", "yref": "y3 domain"}
        figure.add_annotation(x=0.5, y=0.5, showarrow=False, **note)
    if labels.rate.sd is not None:
        two = 2 * labels.rate.sd[:, i]
        figure.add_trace(band(ts, rate - two, rate + two, "95 % band", PREDICTED), 1, 2)
    figure.add_trace(line(ts, rate, "derivative", PREDICTED), 1, 2)
    frequency = np.fft.rfftfreq(len(ts), np.median(np.diff(ts)))[1:]
    for values, name, colour in ((measured, "samples", TRUE), (rate, "derivative", PREDICTED)):
        finite = np.where(np.isfinite(values), values, np.nanmean(values))
        power = np.abs(np.fft.rfft(finite - finite.mean()) * np.sqrt(2) / len(ts))[1:]
        figure.add_trace(line(frequency, power, f"spectrum of {name}", colour, most=MOST_FREQUENCIES), 2, 2)
    for place, (across, up) in {
        (1, 1): ("t (s)", label(measured_in)),
        (1, 2): ("t (s)", label(rate_in)),
        (2, 1): ("t (s)", f"residual of {label(measured_in)}"),
        (2, 2): ("frequency (Hz)", "amplitude"),
    }.items():
        figure.update_xaxes(title_text=across, row=place[0], col=place[1])
        figure.update_yaxes(title_text=up, row=place[0], col=place[1])
    figure.update_yaxes(type="log", dtick=1, row=2, col=2)
    figure.update_xaxes(type="log", dtick=1, row=2, col=2)
    return styled(figure, height=640)
