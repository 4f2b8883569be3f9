"""`auto` on the paper's systems: near the best that anyone could do who knew the truth, and honest about its error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline
from scipy.signal import savgol_filter

from fnode.derivatives import DERIVATIVES, agreement, label
from fnode.derivatives._penalised import Problem
from fnode.derivatives.gaussian_process import MATERN72, RBF
from fnode.solvers import TIGHT, rollout
from fnode.systems import SYSTEMS, recordings

STUDY = ("mass_spring_damper", "triple_mass_spring_damper", "double_pendulum", "cart_pole")
AUTO = DERIVATIVES["auto"]


@pytest.fixture(scope="module")
def channels():
    """Times, positions, velocities and accelerations of the study's eight channels."""
    ts, found = 0.01 * np.arange(300), []
    for name in STUDY:
        system = SYSTEMS[name]()
        x = rollout(system, system.protocol.start, jnp.asarray(ts), solver=TIGHT)
        a = jax.vmap(lambda t, x, system=system: system.acceleration(t, x))(jnp.asarray(ts), x)
        found.extend((ts, *rows) for rows in zip(*(np.asarray(part).T for part in (x.q, x.v, a)), strict=True))
    return found


def relative(value, truth):
    return np.sqrt(np.mean((value - truth) ** 2)) / np.std(truth)


def oracle(ts, y, truth, order):
    """The least error of Savitzky-Golay and penalised splines over all their parameters, told by the truth."""
    errors = []
    for degree in (2, 4, 6, 9):
        for width in range(degree + 3 - degree % 2, len(ts), 12):
            value = savgol_filter(y, width // 2 * 2 + 1, degree, deriv=order, delta=ts[1] - ts[0])
            errors.append(relative(value, truth))
    for m in (2, 3, 4, 5):
        problem = Problem(ts, y - np.mean(y), max(100, len(ts) // 8), m)
        rows = problem.basis.rows((ts - ts[0]) / problem.step, order).matrix
        for cutoff in np.geomspace(0.05, 4.0, 16):
            if (solution := problem.solve(cutoff)) is not None:
                errors.append(relative(rows @ solution.coefficients / problem.step**order, truth))
    return min(errors)


@pytest.fixture(scope="module")
def ratios(channels):
    """Our error over the oracle's in each noisy case.

    Errors are root mean squares over two draws: on a single one the oracle is sometimes merely lucky.
    """
    rng, ratios = np.random.default_rng(11), []
    for ts, q, v, a in channels[::4]:  # `fnode bench label_study` takes them all
        for noise in (0.001, 0.01, 0.05):
            for signal, order in ((v, 1), (q, 2)):
                ys = [signal + noise * np.std(signal) * rng.normal(size=len(ts)) for _ in range(2)]
                error = AUTO(ts, np.stack(ys, axis=1), order=order).value - a[:, None]
                best = np.sqrt(np.mean([oracle(ts, y, a, order) ** 2 for y in ys]))
                ratios.append(np.sqrt(np.mean(error**2)) / np.std(a) / best)
    return np.array(ratios)


def test_auto_is_close_to_the_best_parameters_that_the_truth_could_choose(ratios):
    assert np.exp(np.mean(np.log(ratios))) < 1.4
    assert np.max(ratios) < 4.0


@pytest.mark.parametrize("order", [1, 2])
def test_standard_deviations_are_calibrated_up_to_one_percent_of_noise(channels, order):
    """The rms of error over standard deviation, typical of all channels.

    Errors along one record go together, so that a single case is off by a fifth by chance: it takes many.
    """
    rng, spreads = np.random.default_rng(11), []
    for ts, q, v, a in channels:
        signal = v if order == 1 else q
        for noise in (0.001, 0.01):
            y = signal + noise * np.std(signal) * rng.normal(size=len(ts))
            found = AUTO(ts, y[:, None], order=order)
            assert found.variance is not None
            spreads.append(np.sqrt(np.mean((found.value[:, 0] - a) ** 2 / found.variance[:, 0])))
    assert 0.8 < np.median(spreads) < 1.25


@pytest.mark.parametrize("count", [250, 1200])
def test_auto_is_close_to_the_best_on_signals_that_it_was_not_made_for(count):
    """`benchmarks/labels.py` takes more of them, and pynumdiff's."""
    rng, ratios = np.random.default_rng(12), []
    ts = np.linspace(0.01, 10.01, count)
    for y, rate in (
        (
            np.sin(2 * ts + 1.5 * np.sin(0.7 * ts)),
            np.cos(2 * ts + 1.5 * np.sin(0.7 * ts)) * (2 + 1.05 * np.cos(0.7 * ts)),
        ),
        (np.tanh(ts - 3) + 0.2 * np.cos(3 * ts), np.cosh(ts - 3) ** -2.0 - 0.6 * np.sin(3 * ts)),
    ):
        noisy = y + 0.01 * np.std(y) * rng.normal(size=count)
        ours = relative(AUTO(ts, noisy[:, None]).value[:, 0], rate)
        ratios.append(ours / oracle(ts, noisy, rate, 1))
    assert np.exp(np.mean(np.log(ratios))) < 1.6


def test_labels_of_noisy_samples_are_five_times_better_than_three_point_differences():
    """Medians over draws of 1 % noise on a training part; `fnode bench label_study` trains on them, and on others."""
    errors = []
    for draw in range(5):
        recording = recordings(SYSTEMS["cart_pole"](), noise=0.01, key=jax.random.key(draw))[0]
        seen, truth = recording.observed, recording.truth[: recording.training].a
        assert seen is not None
        ts, q, v = (np.asarray(values) for values in (seen.ts, seen.x.q, seen.x.v))
        found = [label(ts, q, v, method).rate.value for method in ("difference3", "auto")]
        errors.append([np.sqrt(np.mean((value - truth) ** 2)) for value in found])
    plain, ours = np.median(errors, axis=0)
    assert ours < plain / 5


def test_clean_data_gives_nearly_exact_labels(channels):
    for ts, q, v, a in channels:
        for velocities in (None, v[:, None]):
            assert relative(label(ts, q[:, None], velocities).rate.value[:, 0], a) < 1e-6


def test_a_penalised_spline_on_every_sample_is_the_natural_smoothing_spline_of_scipy():
    ts = np.linspace(0.0, 2.0, 40)
    y = np.sin(4 * ts) + 0.1 * np.cos(90 * ts)
    problem, cutoff = Problem(ts, y, len(ts) - 1, 2), 0.4
    solution = problem.solve(cutoff)
    assert solution is not None
    weight = len(ts) / problem.intervals / cutoff**4
    peer = make_smoothing_spline(ts, y, lam=weight * problem.step**3)
    for order in (0, 1, 2):
        ours = problem.basis.rows(ts / problem.step, order).matrix @ solution.coefficients / problem.step**order
        assert np.allclose(ours, peer(ts, order), atol=1e-8 * 10**order)


@pytest.mark.parametrize("kernel", [RBF, MATERN72], ids=["rbf", "matern72"])
def test_kernels_are_differentiated_correctly(kernel):
    lag, step = np.linspace(-1.0, 1.0, 21) + 0.013, 1e-4
    assert np.isclose(kernel(np.zeros(1), 0.5)[0], 1.0)
    for order in range(4):
        slope = (kernel(lag + step, 0.5, order) - kernel(lag - step, 0.5, order)) / (2 * step)
        assert np.allclose(slope, kernel(lag, 0.5, order + 1), atol=1e-4 * 4 ** (order + 1))


@pytest.mark.parametrize("delay", [0.0, 2e-3])
def test_velocities_are_doubted_when_they_come_late_and_only_then(delay):
    ts = np.arange(0.0, 4.0, 2e-3)
    noise = np.random.default_rng(0).normal(size=(2, len(ts)))
    q, v = np.sin(3 * ts) + 1e-4 * noise[0], 3 * np.cos(3 * (ts - delay)) + 1e-3 * noise[1]
    found = agreement(ts, q, v, angle=False)
    assert found is not None
    assert found.doubtful == (delay > 0)
    assert abs(found.delay - delay) < 3e-4


def test_a_record_of_many_oscillations_is_followed():
    """Coarse knots that miss the motion altogether say nothing about finer ones."""
    ts = np.linspace(0.0, 1.0, 2000)
    q = np.sin(2 * np.pi * 40 * ts) + 0.01 * np.random.default_rng(0).normal(size=len(ts))
    found = label(ts, q[:, None])
    true = -((2 * np.pi * 40) ** 2) * np.sin(2 * np.pi * 40 * ts)
    inside = slice(50, -50)
    assert np.std(found.rate.value[inside, 0] - true[inside]) < 0.1 * np.std(true)


def test_rounded_positions_are_not_taken_for_motion():
    """The error of an encoder that hardly moves is shared by many samples."""
    ts = np.arange(0.0, 6.0, 1e-3)
    step, q = 2e-4, 0.5 * np.exp(-0.1 * ts) * np.sin(6 * ts)
    found = label(ts, step * np.round(q / step)[:, None])
    true = np.gradient(np.gradient(q, ts), ts)
    inside = slice(100, -100)
    assert np.std(found.rate.value[inside, 0] - true[inside]) < 0.01 * np.std(true)
    assert len(found.diagnostics[0].outliers) < 0.02 * len(ts)
