"""The vehicle at scale: simulation of its grid, memory of a stream, training by one process and by two.

    python benchmarks/scale.py [--quick] [--json]

Steps are trajectory-steps of RK4, dt 0.01, in float64 unless the name says otherwise, ours on all cores. Peers are the
same scheme vectorised over trajectories in NumPy, the same scheme in a Python loop for one trajectory at a time (on
arrays of four numbers, as scripts write it), and scipy's `solve_ivp` for one trajectory at a time. `--quick` streams a
part of the grid only.
"""

import json
import math
import os
import resource
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
from _bench import interleaved, show

from fnode.config import Network
from fnode.derivatives import derivative_named
from fnode.scale import CHUNK, Grid, SimulatedStream, fit_stream, simulate_side_by_side
from fnode.structures import fresh
from fnode.systems import Vehicle
from fnode.training import Adam, RateLoss

SYSTEM = Vehicle()
GRID = Grid(SYSTEM.ranges)
DT, SAMPLES, TRAINING = 0.01, 2000, 1500
LANES = 1024  # trajectories side by side
PAPER_EPOCHS = 300
REPEATS = 5
SHARE = "--share"  # what a child process is told: its rank, their number, a port


def main():
    jax.config.update("jax_enable_x64", True)
    if SHARE not in sys.argv:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))  # as `fnode learn` does
    if SHARE in sys.argv:
        rank, number, port = map(int, sys.argv[sys.argv.index(SHARE) + 1 :][:3])
        child(rank, number, port)
        return
    quick = "--quick" in sys.argv
    results = throughput()
    results["stream_memory"] = streamed(GRID.count // (16 if quick else 1))
    paper_rows = paper_network()
    one, two = (job(number) for number in (1, 2))
    results["two_processes"] = {"ours": two, "peer": one, "ratio": two / one, "unit": "rows/s"}
    rows = GRID.count * TRAINING * PAPER_EPOCHS
    hours = rows / paper_rows / 3600
    results["paper_setting"] = {
        "ours": paper_rows,
        "peer": rows / 3600,
        "ratio": paper_rows * 3600 / rows,
        "unit": "rows/s",
    }
    show(
        "vehicle: ours against peers; throughputs are per second, more is better; memory in GB, less is better",
        results,
        [
            "stream_memory: peak of this process while it streams the grid, against the grid's states held in float64",
            "two_processes: training by two processes against one, on the cores of this machine",
            f"paper_setting: rows/s of a 6x256 network at batch 1024 on this machine, against what {PAPER_EPOCHS} "
            f"epochs over {GRID.count * TRAINING / 1e6:.0f} million rows need in an hour: "
            f"{hours / 24:.0f} days here, or {int(np.ceil(hours))} such machines for an hour",
        ],
    )


def throughput() -> dict:
    """Trajectory-steps per second, ours and peers in turns, in both precisions."""
    ts, few = DT * jnp.arange(SAMPLES), 200  # samples of one trajectory: loops in Python are slow
    chunks = LANES // (CHUNK * len(jax.devices()))
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("lanes",))
    cut = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "lanes"))
    ours = jax.jit(lambda p: jax.lax.map(lambda part: simulate_side_by_side(SYSTEM, part, ts), p))
    double = GRID.points(0, LANES)
    single = double.astype(np.float32)
    wide, narrow = (jax.device_put(p.reshape(chunks, LANES // chunks, -1), cut) for p in (double, single))
    for given, parameters, tolerance in ((wide, double, 1e-9), (narrow, single, 0.1)):
        last = np.stack([np.asarray(values[:, -1]).ravel() for values in ours(given)])
        np.testing.assert_allclose(numpy_grid(parameters)[-1], last, atol=tolerance)
    np.testing.assert_allclose(python_loop(double[0], SAMPLES)[-1], last[:, 0], atol=tolerance)
    seconds = interleaved(
        lambda: jax.block_until_ready(ours(wide)),
        lambda: numpy_grid(double),
        lambda: python_loop(double[0], few),
        lambda: scipy_loop(double[0], few),
        lambda: jax.block_until_ready(ours(narrow)),
        lambda: numpy_grid(single),
        repeats=REPEATS,
    )
    many, one = LANES * (SAMPLES - 1), few - 1
    steps = (many, many, one, one, many, many)
    mine, numpy, loop, scipy_, mine32, numpy32 = (n / second for n, second in zip(steps, seconds, strict=True))
    pairs = {
        "numpy": (mine, numpy),
        "python_loop": (mine, loop),
        "scipy_loop": (mine, scipy_),
        "numpy_float32": (mine32, numpy32),
        "python_loop_float32": (mine32, loop),  # Python's own numbers have one precision
    }
    return {
        name: {"ours": own, "peer": other, "ratio": own / other, "unit": "steps/s"}
        for name, (own, other) in pairs.items()
    }


def drive(t: float) -> tuple[float, float]:
    if t <= 5:
        return 0.25 * (1 - math.cos(math.pi * min(t / 4, 1.0))), 0.0
    return 0.5 * math.exp(-(t - 5) / 10), 0.4 * math.sin(2 * math.pi * 0.3 * (t - 5))


def rates(t: float, z: np.ndarray, p) -> np.ndarray:
    """The paper's equations; components along the first axis, any number of vehicles along the second."""
    _, _, theta, v = z
    wheelbase, beta, gamma, inertia, radius, c0, c1, tau0, omega0 = p
    alpha, delta = drive(t)
    omega = v / (radius * gamma)
    torque = alpha * (tau0 - tau0 / omega0 * omega) - c1 * omega - c0
    return np.array(
        [
            v * np.cos(theta),
            v * np.sin(theta),
            v * np.tan(beta * delta) / wheelbase,
            2 * torque * gamma / inertia * radius,
        ]
    )


def rk4(z: np.ndarray, p, samples: int) -> np.ndarray:
    motion = np.empty((samples, *z.shape), z.dtype)
    motion[0] = z
    for k in range(samples - 1):
        t = k * DT
        k1 = rates(t, z, p)
        k2 = rates(t + DT / 2, z + DT / 2 * k1, p)
        k3 = rates(t + DT / 2, z + DT / 2 * k2, p)
        k4 = rates(t + DT, z + DT * k3, p)
        z = z + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        motion[k + 1] = z
    return motion


def numpy_grid(parameters: np.ndarray) -> np.ndarray:
    return rk4(np.zeros((4, len(parameters)), parameters.dtype), tuple(parameters.T), SAMPLES)


def python_loop(p: np.ndarray, samples: int) -> np.ndarray:
    return rk4(np.zeros(4), p, samples)


def scipy_loop(p: np.ndarray, samples: int):
    ts = DT * np.arange(samples)
    return scipy.integrate.solve_ivp(rates, (0.0, ts[-1]), np.zeros(4), t_eval=ts, args=(p,), rtol=1e-9, atol=1e-9)


def some_stream(rows: int, samples: int = TRAINING, lanes: int = LANES) -> SimulatedStream:
    return SimulatedStream(SYSTEM, GRID, DT * np.arange(samples), lanes, rows, derivative_named("difference"))


def streamed(trajectories: int) -> dict:
    """The peak memory of this process, in GB, after it has simulated, labelled and sampled so much of the grid."""
    stream = some_stream(32, SAMPLES)
    made = jax.jit(stream.labelled)
    total = 0.0
    for number in range(trajectories // LANES):
        total += float(jnp.sum(made(stream.fetch(number, slice(0, LANES))).rate))
    assert np.isfinite(total)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    whole = GRID.count * SAMPLES * 4 * 8 / 1e9
    return {"ours": peak, "peer": whole, "ratio": whole / peak, "unit": "GB"}


def trained(stream: SimulatedStream, network: Network, batch: int, blocks: int) -> float:
    """Rows per second of training, compilation left out."""

    class Some(SimulatedStream):
        blocks = property(lambda self: number)

    number = blocks
    some = Some(**{name: getattr(stream, name) for name in stream.__dataclass_fields__})
    field = fresh(network, SYSTEM.columns, jax.random.key(0), some.whole(0))
    models = jax.tree.map(lambda leaf: leaf[None].astype(jnp.float32) if isinstance(leaf, jax.Array) else leaf, field)
    fitted = fit_stream(models, RateLoss(), some, Adam(1e-4), epochs=1, batches=(batch,))
    return blocks * stream.lanes * stream.rows / fitted.seconds_train


def paper_network() -> float:
    """Rows per second of the paper's network in the paper's batches, simulation included."""
    network = Network(depth=6, width=256, scale=True, kinematics="rolling")
    return trained(some_stream(300, samples=300, lanes=256), network, 1024, 1)


def child(rank: int, number: int, port: int) -> None:
    """One of several processes that train together; the first tells how fast."""
    if number > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", number, rank)
    rate = trained(some_stream(128), Network(depth=3, width=128, scale=True, kinematics="rolling"), 8192, 4)
    if rank == 0:
        print(json.dumps(rate))


def job(number: int) -> float:
    """Rows per second of so many processes together: the median of three jobs."""
    rates = []
    for _ in range(3):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, __file__, SHARE]
        others = [
            subprocess.Popen(
                [*command, str(rank), str(number), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for rank in range(number)
        ]
        said = [process.communicate()[0] for process in others]
        rates.append(json.loads(said[0].splitlines()[-1]))
    return float(np.median(rates))


if __name__ == "__main__":
    main()
