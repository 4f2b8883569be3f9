"""Labels: speed on a long record, and accuracy against methods whose parameters were chosen with the truth.

    python benchmarks/labels.py [--json] [--quick] [--speed]

One thread. `--quick`: one draw of noise instead of three. `--speed`: the long record alone; the oracle takes most of
the time.
"""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from _bench import interleaved, result, show
from scipy.interpolate import make_smoothing_spline
from scipy.signal import savgol_filter

from fnode.derivatives import DERIVATIVES, label
from fnode.derivatives._penalised import Problem, drawn
from fnode.solvers import TIGHT, rollout
from fnode.systems import SYSTEMS

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about optional parts that are not used here
        import pynumdiff
        from pynumdiff.optimize import optimize
        from pynumdiff.utils import simulate
except ModuleNotFoundError:
    sys.exit("this benchmark compares with pynumdiff: pip install pynumdiff")

NOISES = (0.001, 0.01, 0.05)
DRAWS = 1 if "--quick" in sys.argv else 3
AUTO = DERIVATIVES["auto"]


def relative(value, truth):
    return float(np.sqrt(np.mean((value - truth) ** 2)) / np.std(truth))


def study_channels():
    """The eight channels of the paper's systems: times, positions, velocities, accelerations."""
    ts = 0.01 * np.arange(300)
    for name in ("mass_spring_damper", "triple_mass_spring_damper", "double_pendulum", "cart_pole"):
        system = SYSTEMS[name]()
        x = rollout(system, system.protocol.start, jnp.asarray(ts), solver=TIGHT)
        a = jax.vmap(lambda t, x, system=system: system.acceleration(t, x))(ts, x)
        for q, v, rate in zip(np.asarray(x.q).T, np.asarray(x.v).T, np.asarray(a).T, strict=True):
            yield ts, q, v, rate


UNSEEN = (
    lambda t: jnp.sin(2 * t + 1.5 * jnp.sin(0.7 * t)),
    lambda t: 1 / (1 + (t - 4) ** 2) + 0.05 * t,
    lambda t: jnp.sin(5 * t) * jnp.sin(0.4 * t),
    lambda t: jnp.tanh(t - 3) + 0.2 * jnp.cos(3 * t),
    lambda t: jnp.log(1 + t) * jnp.cos(t**1.3),
)


def unseen_channels():
    """Signals that are not in the study, short and long, differentiated exactly."""
    for count in (250, 1200):
        ts = np.linspace(0.0, 10.0, count) + 0.01
        for signal in UNSEEN:
            rate = jax.grad(signal)
            yield ts, *(np.asarray(jax.vmap(f)(ts)) for f in (signal, rate, jax.grad(rate)))


def oracle(ts, y, truth, order):
    """The least error of Savitzky-Golay, penalised splines and pynumdiff over their parameters, told by the truth."""
    dt, count = ts[1] - ts[0], len(ts)
    candidates = []
    for degree in (2, 3, 4, 5, 6, 7, 9):
        for width in np.unique(np.geomspace(degree + 2, count, 30).astype(int) // 2 * 2 + 1):
            if degree < width <= count:
                candidates.append(savgol_filter(y, width, degree, deriv=order, delta=dt))
    for m in (2, 3, 4, 5):
        problem = Problem(ts, y - np.mean(y), max(8, count // 3), m)
        rows = problem.basis.rows((ts - ts[0]) / problem.step, order).matrix
        for cutoff in np.geomspace(0.03, 4.0, 40):
            solution = problem.solve(cutoff)
            if solution is not None:
                candidates.append(rows @ solution.coefficients / problem.step**order)
    if order == 1:
        for model in (1, 2, 3):
            for ratio in np.linspace(0.0, 16.0, 17):
                candidates.append(pynumdiff.rtsdiff(y, dt, model, ratio, True)[1])
        for power in (1, 2, 3):
            for cutoff in np.geomspace(0.005, 0.5, 16):
                candidates.append(pynumdiff.butterdiff(y, dt, power, cutoff)[1])
        for cutoff in np.geomspace(0.005, 0.5, 16):
            candidates.append(pynumdiff.spectraldiff(y, dt, cutoff, "even", True)[1])
    return min(relative(value, truth) for value in candidates if np.all(np.isfinite(value)))


def noisy_cases(channels):
    """Every channel under every noise, from velocities and from positions: several draws of each case."""
    rng = np.random.default_rng(7)
    for ts, q, v, a in channels:
        for noise in NOISES:
            for signal, order in ((v, 1), (q, 2)):
                ys = [signal + noise * np.std(signal) * rng.normal(size=len(ts)) for _ in range(DRAWS)]
                yield noise, ts, np.stack(ys, axis=1), a, order


def pynumdiff_cases():
    """The six test signals of pynumdiff."""
    for name in ("sine", "triangle", "pop_dyn", "linear_autonomous", "pi_cruise_control", "lorenz_x"):
        simulated = getattr(simulate, name)
        draws = [simulated(noise_parameters=(0, 0.1), random_seed=seed) for seed in range(1, DRAWS + 1)]
        ys = np.stack([y for y, _, _ in draws], axis=1)
        yield 0.1, 0.01 * np.arange(len(ys)), ys, draws[0][2], 1


def against_oracle(cases):
    """Our error over the oracle's in each case, and the root mean square of error over standard deviation.

    Errors are root mean squares over the draws of a case: on a single draw the oracle is sometimes merely lucky.
    """
    ratios, scores = [], []
    for noise, ts, ys, truth, order in cases:
        found = AUTO(ts, ys, order=order)
        error = found.value - truth[:, None]
        best = np.sqrt(np.mean([oracle(ts, y, truth, order) ** 2 for y in ys.T]))
        ratios.append(np.sqrt(np.mean(error**2)) / np.std(truth) / best)
        scores.append((noise, order, np.sqrt(np.mean(error**2 / found.variance))))
    return np.array(ratios), np.array(scores)


def speed():
    """10,000 noisy samples of two tones, against the two peers: seconds and errors by name.

    `auto` chooses everything and gives the variance. pynumdiff's smoother gives none and takes its parameter from the
    caller: the best by the truth, or (`searched`) what its own search without the truth
    finds in five steps, told the bandwidth. With
    the stiffness told to us as well (`given`), one solve and its variance remain.
    """
    ts = np.linspace(0.0, 100.0, 10_000)
    y = np.sin(ts) + 0.5 * np.sin(2.3 * ts + 1) + 0.01 * np.random.default_rng(0).normal(size=len(ts))
    truth = np.cos(ts) + 1.15 * np.cos(2.3 * ts + 1)

    def rts(ratio):
        return pynumdiff.rtsdiff(y, ts[1], 3, ratio)[1]

    def given(cutoff):
        problem = Problem(ts, y, len(ts) // 8, 4)
        return drawn(problem, problem.solve(cutoff), "given").at(ts, 1)[0]

    def told(method, guesses):
        return min(guesses, key=lambda guess: relative(method(guess), truth))

    ratio, cutoff = told(rts, np.linspace(0.0, 12.0, 13)), told(given, np.geomspace(0.2, 2.0, 13))  # not timed
    smoothers = {
        "auto": lambda: AUTO(ts, y[:, None]).value[:, 0],
        "given": lambda: given(cutoff),
        "rts": lambda: rts(ratio),
        "spline": lambda: make_smoothing_spline(ts, y)(ts, 1),
    }
    seconds = dict(zip(smoothers, interleaved(*smoothers.values(), repeats=5), strict=True))
    errors = {name: relative(smoother(), truth) for name, smoother in smoothers.items()}
    began = time.perf_counter()  # minutes: once is enough
    space = {"order": 3, "forwardbackward": False}
    found = optimize(pynumdiff.rtsdiff, y, ts[1], None, 0.5, space, maxiter=5, parallel=False)[0]
    seconds["rts searched"] = time.perf_counter() - began
    return seconds, {**errors, "rts searched": relative(rts(found["log_qr_ratio"]), truth)}


def main():
    results = speeds()
    if "--speed" in sys.argv:
        show("labels of 10,000 samples", results)
    else:
        show("labels (peer of the last rows: the goal)", *accuracies(results))


def speeds():
    """Rows of seconds and errors."""
    seconds, errors = speed()
    results = {}
    for ours, peer in (("auto", "rts"), ("given", "rts"), ("auto", "rts searched"), ("auto", "spline")):
        results[f"seconds, {ours} : {peer}"] = result(seconds[ours], seconds[peer], "s")
        results[f"error, {ours} : {peer}"] = result(errors[ours], errors[peer], "")
    return results


def accuracies(results):
    """The rows with those of errors beside their goals, and notes on calibration."""
    study = list(study_channels())
    clean = [relative(label(t, q[:, None], v[:, None]).rate.value[:, 0], a) for t, q, v, a in study]
    clean += [relative(label(t, q[:, None]).rate.value[:, 0], a) for t, q, _, a in study]
    results["clean, worst"] = result(max(clean), 1e-6, "")
    notes = []
    for name, cases, mean_goal, worst_goal in (
        ("study", noisy_cases(study), 1.4, 4.0),
        ("pynumdiff", pynumdiff_cases(), 1.3, np.inf),
        ("unseen", noisy_cases(unseen_channels()), 1.6, 6.0),
    ):
        ratios, scores = against_oracle(cases)
        results[f"{name} / oracle, mean"] = result(float(np.exp(np.mean(np.log(ratios)))), mean_goal, "")
        if np.isfinite(worst_goal):
            results[f"{name} / oracle, worst"] = result(float(np.max(ratios)), worst_goal, "")
        for noise, order in sorted({(noise, order) for noise, order, _ in scores}):
            here = scores[(scores[:, 0] == noise) & (scores[:, 1] == order), 2]
            notes.append(
                f"{name}: noise {noise:g}, derivative {order:g}: median rms of error / sd {np.median(here):.2f}"
            )
    return results, notes


if __name__ == "__main__":
    main()
