"""Streams of training data: what they hold, that they can be cut and resumed, and that processes share them."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars
import pytest

from fnode import io
from fnode.bench import cluster_workers
from fnode.config import Network, read_config, validated
from fnode.derivatives import derivative_named
from fnode.errors import InputError
from fnode.models import Polynomial
from fnode.scale import DESIGNS, Grid, Random, ShardStream, Shuffle, SimulatedStream, Sobol, fit_stream
from fnode.solvers import rollout
from fnode.streaming import fit_streamed, stream_of
from fnode.structures import fresh
from fnode.systems import Vehicle, recordings
from fnode.systems.sincos import sincos
from fnode.systems.vehicle import TESTS
from fnode.training import Adam, RateLoss
from fnode.trajectory import State

SYSTEM = Vehicle()
FEW = {name: SYSTEM.ranges[name] for name in ("l", "beta", "gamma")}


def a_stream(lanes=32, rows=5, samples=60, method="difference", design=None):
    way = None if method is None else derivative_named(method)
    design = design or Grid(SYSTEM.ranges, levels=2)
    return SimulatedStream(SYSTEM, design, 0.1 * np.arange(samples), lanes, rows, way)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 1000])
def test_a_shuffle_is_a_bijection(count):
    order = Shuffle(count, 7)(np.arange(count))
    assert sorted(order) == list(range(count))
    assert count < 64 or np.any(order != Shuffle(count, 8)(np.arange(count)))


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_follows_from_seed_and_position_alone(name):
    size = {"levels": 4} if name == "grid" else {"trajectories": 50}
    design = DESIGNS[name](FEW, seed=3, **size)
    whole = design.points(0, 2 * design.count + 10)
    for first, number in ((0, 7), (20, 5), (design.count - 3, 6), (2 * design.count, 10)):
        np.testing.assert_array_equal(design.points(first, number), whole[first : first + number])
    low, high = np.array(list(FEW.values())).T
    assert np.all((whole >= low) & (whole <= high))
    assert np.any(whole[: design.count] != whole[design.count : 2 * design.count])
    assert np.any(DESIGNS[name](FEW, seed=4, **size).points(0, 5) != whole[:5])


def test_every_epoch_of_the_papers_grid_has_every_combination_once():
    grid = Grid(SYSTEM.ranges)
    assert grid.count == 4**9
    for epoch in (0, 1):
        points = grid.points(epoch * grid.count, grid.count)
        assert len(np.unique(points.round(9), axis=0)) == grid.count
    values = np.array([np.linspace(*between, 4) for between in SYSTEM.ranges.values()])
    on_the_grid = [np.all(np.min(np.abs(values - np.array(case)[:, None]), axis=1) < 1e-12) for case in TESTS.values()]
    assert on_the_grid == [True, True, False, False]


def test_sobol_points_are_more_even_than_random_ones():
    def unevenness(design):
        shares = (design.points(0, 256) - [low for low, _ in FEW.values()]) / [high - low for low, high in FEW.values()]
        return np.abs(np.histogramdd(shares, 4, range=[(0, 1)] * 3)[0] - 4).mean()

    assert unevenness(Sobol(FEW, trajectories=256)) < 0.3 * unevenness(Random(FEW, trajectories=256))


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float64, 5e-16), (np.float32, 2e-7)])
def test_sine_and_cosine_are_exact_to_rounding(kind, tolerance):
    angles = np.linspace(-50, 50, 10001).astype(kind)
    sine, cosine = sincos(jnp.asarray(angles))
    assert sine.dtype == kind
    np.testing.assert_allclose(sine, np.sin(angles.astype(float)), atol=tolerance)
    np.testing.assert_allclose(cosine, np.cos(angles.astype(float)), atol=tolerance)


def test_the_vehicle_obeys_the_papers_equations():
    q, u = (1.0, 2.0, 0.7, 12.0), (0.4, 0.3, *TESTS["4"])
    wheelbase, beta, gamma, inertia, radius, c0, c1, tau0, omega0 = TESTS["4"]
    motor = 12.0 / (radius * gamma)
    torque = 0.4 * (-tau0 / omega0 * motor + tau0) - c1 * motor - c0
    turning, speeding = 12 * np.tan(beta * 0.3) / wheelbase, 2 * torque * gamma / inertia * radius
    wanted = [12 * np.cos(0.7), 12 * np.sin(0.7), turning, speeding]
    found = SYSTEM(0.0, State(jnp.array(q), jnp.zeros(0)), jnp.array(u))
    np.testing.assert_allclose(found.q, wanted, rtol=1e-14)
    halved = Vehicle(torque_factor=1.0)(0.0, State(jnp.array(q), jnp.zeros(0)), jnp.array(u))
    assert halved.q[3] == pytest.approx(speeding / 2)


def test_a_stream_holds_the_motions_of_its_design_and_their_derivatives():
    stream = a_stream()
    found, exact = (part.whole(3) for part in (stream, a_stream(method=None)))
    np.testing.assert_array_equal(found.x.q, exact.x.q)
    assert np.median(np.abs(found.rate - exact.rate)) < 1e-5
    parameters = stream.design.points(3 * stream.lanes, 1)[0]
    ts = jnp.asarray(stream.ts)
    motion = rollout(SYSTEM, SYSTEM.protocol.start, ts, control=SYSTEM.control(parameters)).q
    rows = np.searchsorted(stream.ts, np.asarray(found.t[: stream.rows]) - 1e-9)
    np.testing.assert_allclose(found.x.q[: stream.rows], motion[rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.u[: stream.rows, 2:], np.tile(parameters, (stream.rows, 1)))


def test_all_rows_of_a_stream_are_all_samples_once():
    found = a_stream(rows=60).whole(0)
    np.testing.assert_allclose(np.sort(found.t.reshape(32, 60)), np.tile(0.1 * np.arange(60), (32, 1)))


def trained(stream, epochs=1, batches=(64,), **options):
    field = fresh(
        Network(width=8, scale=True, kinematics="rolling"), SYSTEM.columns, jax.random.key(0), stream.whole(0)
    )
    models = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, field)
    return fit_stream(models, RateLoss(), stream, Adam(3e-3), epochs=epochs, batches=batches, **options)


def test_training_goes_on_from_the_middle_of_an_epoch():
    stream, kept = a_stream(rows=4), []
    whole = trained(stream, report=kept.append)
    middle = kept[len(kept) // 3]
    again = trained(stream, resume_from=lambda fresh: middle)
    np.testing.assert_array_equal(again.history, whole.history)
    for a, b in zip(jax.tree.leaves(again.models), jax.tree.leaves(whole.models), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.history[0, -3:].mean() < whole.history[0, :3].mean()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stream": {"block": 1000}}, "divides"),
        ({"stream": {"rows": 4000}}, "rows=4000"),
        ({"stream": {"ranges": {"mass": (1.0, 2.0)}}}, "unknown parameter 'mass'"),
        ({"labels": {"labels": "gp"}}, "labels=gp"),
        ({"data": {"noise": 0.1}}, "without noise"),
        ({"data": {"data_solver": "Dopri5"}}, "Dopri5"),
        ({"model": "lstm"}, "lstm"),
        ({"training": {"optimiser": "least_squares"}}, "optimiser=adam"),
        ({"stream": {"design": "files"}}, "built-in system"),
    ],
)
def test_streams_that_cannot_be_are_refused(wrong, said):
    config = {"system": "vehicle", "labels": {"labels": "difference"}, **wrong}
    config["stream"] = {"design": "grid", **wrong.get("stream", {})}
    with pytest.raises(InputError, match=said):
        stream_of(validated(config), SYSTEM)
    with pytest.raises(InputError, match="a batch is"):
        trained(a_stream(), batches=(48,))


def test_a_polynomial_is_found_again_from_its_values():
    variables = jax.random.normal(jax.random.key(0), (200, 3))
    a, b, c = variables.T
    values = jnp.stack([1 + a * b * c - 2 * b**2, c**3 - a], axis=1)
    found = Polynomial.fitted(variables, values, 3)
    np.testing.assert_allclose(jax.vmap(found)(variables), values, atol=1e-8)
    assert jnp.all(jax.grad(lambda p: jnp.sum(p(variables[0])))(found).coefficients == 0)


@pytest.mark.parametrize("kind", ["parquet", "npz", "h5", "zarr"])
def test_files_are_streamed_one_at_a_time(tmp_path, kind):
    files = []
    for k, motion in enumerate(recordings(SYSTEM, key=jax.random.key(0), steps=80)):
        path = tmp_path / f"{k}.{kind}"
        io.write(tmp_path / "one.parquet", {"0": motion.truth})
        table = {
            name: column.to_numpy() for name, column in polars.read_parquet(tmp_path / "one.parquet").to_dict().items()
        }
        written(path, table)
        files.append(path)
    reads = []

    def read(path):
        reads.append(path)
        return io.read(path, SYSTEM.columns)

    stream = ShardStream(tuple(files), read, "difference", lanes=4, rows=5)
    blocks = [stream.whole(number) for number in range(8)]
    assert stream.blocks == 4
    first, second = ({float(block.u[0, 2]) for block in part} for part in (blocks[:4], blocks[4:]))
    assert first == second == {case[0] for case in TESTS.values()}
    again = stream.fetch(5, slice(2, 4))
    np.testing.assert_array_equal(again.t.ravel(), blocks[5].t[10:])
    exact = jax.vmap(SYSTEM)(blocks[0].t, blocks[0].x, blocks[0].u).q
    np.testing.assert_allclose(blocks[0].rate, exact, atol=1e-5)


def written(path, table):
    if path.suffix == ".parquet":
        polars.DataFrame(table).write_parquet(path)
    elif path.suffix == ".npz":
        np.savez(path, **table)
    elif path.suffix == ".h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            for name, values in table.items():
                file[name] = values
    else:
        root = pytest.importorskip("zarr").open_group(path, mode="w")
        for name, values in table.items():
            root.create_array(name, data=values)


SMALL = """
[network]
structure = "mlp"
width = 8
[training]
epochs = {epochs}
batch = [64, 128]
[data]
train = 60
steps = 80
[stream]
levels = 2
block = 32
rows = 8
"""


def started(folder, rank, processes, port, *words, epochs=1):
    """One process of `fnode learn vehicle`; the number of epochs is part of the configuration."""
    config = folder.parent / f"small-{epochs}.toml"
    config.write_text(SMALL.format(epochs=epochs))
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "FNODE_CHECKPOINT_SECONDS": "0.2",
        "FNODE_COORDINATOR": f"127.0.0.1:{port}",
        "FNODE_PROCESSES": str(processes),
        "FNODE_RANK": str(rank),
    }
    command = [sys.executable, "-c", "from fnode.cli import main; main()", "learn", "vehicle", "--config", str(config)]
    return subprocess.Popen(
        [*command, "-o", str(folder), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def job(folder, processes, *words, **options):
    """The exit codes of all processes of a job."""
    port = free_port()
    parts = [started(folder, rank, processes, port, *words, **options) for rank in range(processes)]
    said = [part.communicate(timeout=200)[1] for part in parts]
    assert [part.returncode for part in parts] == [0] * processes, said


def losses(folder):
    with (folder / "history.csv").open() as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file)])


def test_two_processes_learn_what_one_learns_and_go_on_after_one_was_killed(tmp_path):
    two, port, epochs = tmp_path / "two", free_port(), 12
    parts = [started(two, rank, 2, port, epochs=epochs) for rank in (0, 1)]
    until = time.monotonic() + 120
    while not (two / "checkpoint-0.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.1)
    parts[1].send_signal(signal.SIGKILL)
    _, said = parts[0].communicate(timeout=60)
    parts[1].communicate()
    assert parts[0].returncode == 2, said
    assert "lost another one" in said
    assert not (two / "scores.json").exists()
    job(two, 2, "--resume", epochs=epochs)
    config = validated(read_config(two / "config.toml"))
    alone = fit_streamed(config, SYSTEM, SYSTEM.columns, report=lambda progress: None, resume_from=lambda fresh: None)
    assert alone.history.shape == (1, epochs * 2**9 // 32)
    np.testing.assert_allclose(losses(two), alone.history[0], rtol=1e-5)
    scores = json.loads((two / "scores.json").read_text())
    assert [entry["name"] for entry in scores["trajectories"]] == list(TESTS)
    assert scores["median"]["final_error_relative"] > 0
    assert "goes on after" in (two / "run.log").read_text()


def dies_once(path, number):
    """Kills its own process the first time it is called with number 1."""
    if number == 1 and not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_work_of_a_worker_that_dies_is_done_by_another(tmp_path):
    with cluster_workers("local", lambda: None, workers=2) as executor:
        found = list(executor.map(dies_once, [str(tmp_path / "died")] * 4, range(4)))
    assert found == [0, 1, 4, 9]
    assert (tmp_path / "died").exists()
