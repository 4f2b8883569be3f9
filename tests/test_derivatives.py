"""Laws of differentiation: what each method is exact on, how its error falls, and what it does with bad data."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fnode.derivatives import (
    DERIVATIVES,
    AbstractSmoother,
    Difference,
    Fourier,
    InterpolatingSpline,
    SavitzkyGolay,
    SmoothingSpline,
    derivative_named,
    eta_prime,
    eta_z,
    label,
)
from fnode.derivatives._banded import cholesky, inverse_band, log_determinant, quadratic, solve
from fnode.derivatives._bsplines import Basis, even_energy
from fnode.derivatives._noise import measured_noise
from fnode.derivatives.fourier import detrended, mirrored, tukey, wave_derivative
from fnode.errors import InputError

DIFFERENCES = {name: method for name, method in DERIVATIVES.items() if isinstance(method, Difference)}
GRIDS = {
    "even": np.linspace(0.0, 2.0, 41),
    "jittered": np.linspace(0.0, 2.0, 41) + 0.01 * np.sin(7.0 * np.arange(41)),
    "random": np.cumsum(np.random.default_rng(3).uniform(0.01, 0.09, 41)),
}


def relative(value, truth):
    return np.sqrt(np.mean((value - truth) ** 2)) / np.std(truth)


def column(y):
    return np.asarray(y, float)[:, None]


# exactness


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("method", DIFFERENCES.values(), ids=DIFFERENCES)
@pytest.mark.parametrize("order", [1, 2])
def test_differences_are_exact_on_polynomials_of_their_order(method, grid, order):
    ts = GRIDS[grid]
    inside = slice(method.order // 2, len(ts) - method.order // 2)
    for degree, part in ((method.order, inside), (method.end_order + order - 1, slice(None))):
        if degree > method.order:
            continue
        polynomial = np.polynomial.Polynomial(np.cos(np.arange(degree + 1.0)))
        truth = polynomial.deriv(order)(ts)
        error = method(ts, column(polynomial(ts)), order=order).value[:, 0] - truth
        assert np.max(np.abs(error[part])) < 1e-7 * max(1.0, np.max(np.abs(truth)))


@pytest.mark.parametrize("count", [32, 33])
def test_the_bare_fourier_step_is_exact_on_whole_waves(count):
    dt = 1.0 / count
    ts = dt * np.arange(count)
    for waves in range((count - 1) // 2 + 1):
        phase = 2 * np.pi * waves * ts + 0.3
        rate = wave_derivative(column(np.sin(phase)), dt)[:, 0]
        assert np.allclose(rate, 2 * np.pi * waves * np.cos(phase), atol=1e-11 * count**2)


def test_steps_of_the_fourier_pipeline():
    ts = np.linspace(0.0, 3.0, 40)
    ys = np.stack([2 - 3 * ts, np.sin(5 * ts)], axis=1)
    flat, slope = detrended(ts, ys)
    assert np.allclose(flat[:, 0], 0.0, atol=1e-12)
    assert np.isclose(slope[0], -3.0)
    assert np.allclose(ts @ flat, 0.0, atol=1e-10)
    longer = mirrored(ys, 10)
    assert np.array_equal(longer[10:50], ys)
    assert np.allclose(longer[[0, -1]], 0.0)
    assert np.allclose(mirrored(ys[::-1], 10), longer[::-1])
    window = tukey(60, 0.2)
    assert window[0] == window[-1] == 0.0
    assert np.all(window[8:-8] == 1.0)
    assert np.all(tukey(60, 0.0) == 1.0)


def test_the_cutoff_in_hertz_is_the_papers_at_a_thirtieth_of_the_sampling_rate():
    ts = 0.01 * np.arange(300)
    ys = column(np.sin(4 * ts) + 0.2 * np.cos(31 * ts))
    paper, hertz = Fourier()(ts, ys), Fourier(cutoff_hertz=1 / (30 * 0.01))(ts, ys)
    assert np.allclose(paper.value, hertz.value, atol=1e-9)


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("grid", GRIDS)
def test_smoothing_splines_reproduce_the_polynomials_that_cost_nothing(m, grid):
    ts = GRIDS[grid]
    polynomial = np.polynomial.Polynomial(np.sin(1.0 + np.arange(m)))
    for order in (1, 2):
        value = SmoothingSpline(m=(m,))(ts, column(polynomial(ts)), order=order).value[:, 0]
        assert np.allclose(value, polynomial.deriv(order)(ts), atol=1e-4)


def test_interpolating_splines_and_savitzky_golay_reproduce_polynomials_of_their_degree():
    ts = GRIDS["even"]
    for method, degree in ((InterpolatingSpline(5), 5), (SavitzkyGolay(4), 4)):
        polynomial = np.polynomial.Polynomial(np.cos(np.arange(degree + 1.0)))
        for order in (1, 2):
            value = method(ts, column(polynomial(ts)), order=order).value[:, 0]
            assert np.allclose(value, polynomial.deriv(order)(ts), rtol=1e-6, atol=1e-6)


# linearity


@pytest.mark.parametrize("name", [name for name, method in DERIVATIVES.items() if method.linear])
@pytest.mark.parametrize("order", [1, 2])
def test_methods_that_claim_it_are_linear(name, order):
    method, ts = DERIVATIVES[name], np.linspace(0.0, 3.0, 60)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60, 2))
    together = method(ts, 2.0 * a - 3.0 * b, order=order).value
    apart = 2.0 * method(ts, a, order=order).value - 3.0 * method(ts, b, order=order).value
    assert np.allclose(together, apart, atol=1e-8 * np.max(np.abs(apart)))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_units_do_not_matter(name):
    ts = np.linspace(0.0, 3.0, 60)
    y = column(np.sin(3 * ts) + 0.01 * np.cos(1e4 * ts))
    plain, scaled = DERIVATIVES[name](ts, y), DERIVATIVES[name](1e-3 * ts + 5.0, 1e6 * y)
    assert np.allclose(scaled.value, 1e9 * plain.value, rtol=1e-3, atol=1e-3 * 1e9 * np.std(plain.value))


# orders under refinement


def refined_error(method, count, part, order=1):
    ts = np.linspace(0.0, 2.0, count)
    truth = 3 * np.cos(3 * ts) if order == 1 else -9 * np.sin(3 * ts)
    error = method(ts, column(np.sin(3 * ts)), order=order).value[:, 0] - truth
    return np.sqrt(np.mean(error[part] ** 2))


@pytest.mark.parametrize("order", [2, 4, 6])
def test_differences_converge_at_their_order_inside(order):
    method = Difference(order, order)
    coarse, fine = (refined_error(method, count, slice(order, -order)) for count in (41, 81))
    assert abs(np.log2(coarse / fine) - order) < 0.2


@pytest.mark.parametrize("end_order", [1, 2, 3])
def test_ends_of_order_q_raise_the_whole_error_by_half_an_order(end_order):
    """Two samples of n are wrong by `dt^q`, so the root mean square falls as `dt^(q + 1/2)`: the paper's analysis."""
    method = Difference(8, end_order)
    coarse, fine = (refined_error(method, count, slice(None)) for count in (201, 401))
    assert abs(np.log2(coarse / fine) - (end_order + 0.5)) < 0.15


@pytest.mark.parametrize("degree", [3, 5, 7])
def test_interpolating_splines_converge_at_their_degree(degree):
    coarse, fine = (refined_error(InterpolatingSpline(degree), count, slice(None)) for count in (41, 81))
    assert np.log2(coarse / fine) > degree - 0.6


def test_the_gibbs_error_of_a_jump_goes_as_one_over_dt_and_not_with_the_number_of_samples():
    def ringing(count, dt):
        return np.max(np.abs(wave_derivative(column(np.arange(count) / (count - 1)), dt)))

    assert np.isclose(ringing(200, 0.01), ringing(400, 0.01), rtol=0.03)
    assert np.isclose(ringing(200, 0.005), 2 * ringing(200, 0.01))
    assert 0.5 < ringing(200, 0.01) * 2 * 0.01 < 4.0  # of the size jump / (2 dt)


# the machinery


def test_banded_algebra_agrees_with_full_matrices():
    rng = np.random.default_rng(1)
    for size, width in ((1, 0), (5, 3), (23, 4), (24, 4)):
        lower = np.tril(np.triu(rng.normal(size=(size, size)), -width)) + 3 * np.eye(size)
        full = lower @ lower.T
        band = np.zeros((width + 1, size))
        for k in range(width + 1):
            band[k, : size - k] = np.diagonal(full, -k)
        factor = cholesky(band)
        assert factor is not None
        x = rng.normal(size=size)
        assert np.allclose(solve(factor, x), np.linalg.solve(full, x))
        assert np.isclose(log_determinant(factor), np.linalg.slogdet(full)[1])
        assert np.isclose(quadratic(band, x), x @ full @ x)
        inverse, known = np.linalg.inv(full), inverse_band(factor)
        for k in range(width + 1):
            assert np.allclose(known[k, : size - k], np.diagonal(inverse, -k))


def test_b_splines_sum_to_one_and_their_energies_repeat():
    basis = Basis(np.array([0.0, 0.5, 1.2, 2.0, 2.1]), 4)
    ts = np.linspace(0.0, 2.1, 50)
    for order in range(4):
        total = basis.rows(ts, order).matrix @ np.ones(basis.size)
        assert np.allclose(total, 1.0 if order == 0 else 0.0, atol=1e-9)
    assert np.allclose(even_energy(40, 5, 3), Basis(np.arange(41.0), 5).quadrature(3).energy(), atol=1e-9)


def test_noise_is_measured_on_any_grid_and_spikes_do_not_matter():
    rng = np.random.default_rng(2)
    ts = np.cumsum(rng.uniform(0.002, 0.02, 1000))
    y = np.sin(5 * ts) + 0.03 * rng.normal(size=1000)
    y[::100] += 7.0
    noise, largest = measured_noise(ts, y)
    assert abs(noise / 0.03 - 1) < 0.2
    assert largest > 3.0


# what `label` does with real records


def wave(count=300, noise=0.01, seed=0):
    """A swinging coordinate: times, measured and true positions, velocities, and the true acceleration."""
    rng = np.random.default_rng(seed)
    ts = np.linspace(0.0, 3.0, count)
    q, v, a = np.sin(5 * ts), 5 * np.cos(5 * ts), -25 * np.sin(5 * ts)
    return ts, q + noise * rng.normal(size=count), v + 5 * noise * rng.normal(size=count), a, q, v


def test_labels_from_positions_velocities_and_both():
    ts, q, v, a, true_q, true_v = wave()
    for source, measured in (("positions", None), ("both", column(v))):
        labels = label(ts, column(q), measured)
        assert labels.diagnostics[0].source == source
        assert labels.q is not None
        assert labels.v is not None
        for found, truth in ((labels.rate, a), (labels.q, true_q), (labels.v, true_v)):
            assert found.sd is not None
            assert np.all(found.known)
            assert relative(found.value[:, 0], truth) < 0.05
            assert 0.3 < np.sqrt(np.mean(((found.value[:, 0] - truth) / found.sd[:, 0]) ** 2)) < 3.0
    first = label(ts, column(q), first_order=True)
    assert first.v is None
    assert relative(first.rate.value[:, 0], true_v) < 0.02


def test_poor_velocities_gain_from_positions():
    from_both, from_better = [], []
    for seed in range(5):
        ts, q, v, a, _, _ = wave(noise=0.002, seed=seed)
        v = v + np.random.default_rng(seed + 100).normal(size=len(ts))
        from_both.append(relative(label(ts, column(q), column(v)).rate.value[:, 0], a))
        single = [label(ts, column(q)).rate.value, DERIVATIVES["auto"](ts, column(v)).value]
        from_better.append(min(relative(value[:, 0], a) for value in single))
    assert np.median(from_both) < 1.2 * np.median(from_better)


def test_short_gaps_are_bridged_and_long_ones_cut_the_record():
    ts, q, _, a, _, _ = wave()
    q[100:110], q[200:240] = np.nan, np.nan
    labels = label(ts, column(q))
    diagnosis = labels.diagnostics[0]
    assert (diagnosis.bridged, diagnosis.unlabelled, diagnosis.stretches) == (10, 40, 2)
    assert np.array_equal(np.isnan(labels.rate.value[:, 0]), ~labels.rate.known[:, 0])
    assert not np.any(labels.rate.known[200:240])
    assert relative(labels.rate.value[labels.rate.known], a[labels.rate.known[:, 0]]) < 0.2
    assert label(ts, column(q), bridge=50.0).diagnostics[0].stretches == 1


def test_outliers_are_found_and_reported():
    ts, _, v, a, q, _ = wave()
    clean = relative(label(ts, column(q), column(v)).rate.value[:, 0], a)
    spikes = (30, 31, 150, 260)
    v[list(spikes)] += (20.0, -15.0, 6.0, 40.0)
    track = label(ts, column(np.full_like(q, np.nan)), column(v))
    assert track.diagnostics[0].outliers == spikes
    assert track.diagnostics[0].source == "velocities"
    assert relative(track.rate.value[:, 0], a) < 0.05
    assert clean < 0.05
    spoiled = np.sin(5 * ts)
    spoiled[77] += 0.5
    assert label(ts, column(spoiled)).diagnostics[0].outliers == (77,)


def test_wrapped_angles_are_unwrapped_where_declared():
    ts = np.linspace(0.0, 3.0, 200)
    q = 4 * ts + np.sin(3 * ts)
    wrapped = np.angle(np.exp(1j * q))
    labels = label(ts, np.stack([wrapped, q], axis=1), angles=(True, False))
    assert np.allclose(labels.rate.value[:, 0], labels.rate.value[:, 1], atol=1e-4)
    assert np.allclose(labels.rate.value[:, 0], -9 * np.sin(3 * ts), atol=1e-4)


def test_single_precision_is_noise_and_is_treated_as_such():
    ts, _, _, a, q, v = wave(noise=0.0)
    rounded = [column(x).astype(np.float32).astype(float) for x in (q, v)]
    assert relative(label(ts, *rounded).rate.value[:, 0], a) < 1e-4
    assert relative(label(ts, rounded[0]).rate.value[:, 0], a) < 1e-3


def test_constant_channels_have_zero_rates():
    ts = np.linspace(0.0, 1.0, 50)
    for level in (0.0, 3.7, -1e30):
        labels = label(ts, np.full((50, 1), level))
        assert np.all(labels.rate.value == 0.0)
        assert labels.diagnostics[0].eta_prime < 1e-6
        assert np.all(np.isfinite(labels.rate.sd))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_short_records_get_one_clear_line(name):
    minimum = derivative_named(name).minimum
    for count in range(2, minimum):
        ts = np.arange(float(count))
        with pytest.raises(InputError, match="need"):
            label(ts, column(np.sin(ts)), method=name)
    ts = np.linspace(0.0, 1.0, minimum)
    assert np.all(np.isfinite(label(ts, column(np.sin(ts)), method=name).rate.value))


def test_bad_input_is_named():
    ts = np.linspace(0.0, 1.0, 30)
    y = column(np.sin(ts))
    with pytest.raises(InputError, match="increase"):
        label(np.concatenate([ts[:10], ts[9:29]]), y)
    with pytest.raises(InputError, match="row for each"):
        label(ts, y[:20])
    with pytest.raises(InputError, match="angles"):
        label(ts, y, angles=(True, True))
    with pytest.raises(InputError, match="finite"):
        DERIVATIVES["difference3"](ts, np.where(ts[:, None] > 0.5, np.nan, y))
    with pytest.raises(InputError, match="evenly"):
        DERIVATIVES["fft"](ts**2 + ts, y)
    with pytest.raises(InputError, match="unknown derivative"):
        derivative_named("magic")


@pytest.mark.parametrize("name", [name for name, method in DERIVATIVES.items() if method.irregular])
def test_methods_that_claim_it_take_irregular_times(name):
    ts = np.cumsum(np.random.default_rng(5).uniform(0.005, 0.02, 200))
    value = label(ts, column(np.sin(4 * ts)), column(4 * np.cos(4 * ts)), name).rate.value[:, 0]
    assert relative(value, -16 * np.sin(4 * ts)) < 0.05


# diagnostics


def test_eta_prime_is_the_truncation_error_of_three_point_differences_on_clean_data():
    ts, _, _, a, _, v = wave(noise=0.0)
    truncation = np.linalg.norm(DERIVATIVES["difference3"](ts, column(v)).value[:, 0] - a) / np.linalg.norm(a)
    assert np.isclose(eta_prime(ts, v), truncation, rtol=0.01)


def test_eta_z_falls_with_the_step_for_perfect_rates():
    coarse, fine = (eta_z(ts, np.cos(ts), -np.sin(ts)) for ts in (np.linspace(0, 5, n) for n in (101, 201)))
    assert abs(np.log2(coarse / fine) - 1) < 0.1


def test_predicted_errors_follow_the_noise():
    errors = []
    for noise in (0.001, 0.01, 0.1):
        ts, q, v, a, _, _ = wave(noise=noise)
        labels = label(ts, column(q), column(v))
        diagnosis = labels.diagnostics[0]
        assert diagnosis.error is not None
        assert diagnosis.noise is not None
        assert abs(np.log(diagnosis.noise / (5 * noise))) < 0.2
        assert 1 / 3 < diagnosis.error / np.sqrt(np.mean((labels.rate.value[:, 0] - a) ** 2)) < 3
        errors.append(diagnosis.error)
    assert errors == sorted(errors)


# anything at all


@st.composite
def series(draw):
    """Times and values as bad as users' files: spikes, gaps, repeats, constants, huge and tiny, very short."""
    count = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    step = 10.0 ** draw(st.integers(-9, 6))
    ts = step * np.arange(count) if draw(st.booleans()) else np.cumsum(step * rng.uniform(0.01, 2.0, count))
    if draw(st.integers(0, 9)) == 0:
        ts[count // 2] = ts[count // 2 - 1]
    shape = draw(st.sampled_from(["constant", "line", "wave", "noise", "staircase", "steps"]))
    phase = np.linspace(0.0, draw(st.floats(0.1, 60.0)), count)
    y = {
        "constant": np.full(count, 1.0),
        "line": phase,
        "wave": np.sin(phase) + 10.0 ** draw(st.integers(-16, 0)) * rng.normal(size=count),
        "noise": rng.normal(size=count),
        "staircase": np.round(5 * np.sin(phase)),
        "steps": np.sign(np.sin(phase)),
    }[shape]
    y = y * 10.0 ** draw(st.sampled_from([-310, -200, -30, -6, 0, 6, 30, 59, 70, 200])) + draw(
        st.sampled_from([0.0, 0.0, 1.0, -1e6])
    )
    for index in draw(st.lists(st.integers(0, count - 1), max_size=5)):
        y[index] += draw(st.sampled_from([1.0, -1e3, 1e8])) * np.max(np.abs(y[np.isfinite(y)]), initial=1.0)
    if draw(st.booleans()):
        first = draw(st.integers(0, count - 1))
        y[first : first + draw(st.integers(1, 30))] = draw(st.sampled_from([np.nan, np.inf]))
    return ts, y


def attempt(*args, **options):
    """Labels, or the line that says why there are none."""
    try:
        return label(*args, **options)
    except InputError as error:
        return str(error)


def well_formed(labels):
    if isinstance(labels, str):
        return "\n" not in labels
    for found in (labels.rate, labels.q, labels.v):
        if found is not None:
            assert np.all(np.isfinite(found.value[found.known]))
            assert found.sd is None or np.all(found.sd[found.known] >= 0)
    assert labels.diagnostics[0].unlabelled == np.sum(~labels.rate.known)
    return labels.rate.known.any()


@given(series(), st.sampled_from(sorted(DERIVATIVES)), st.booleans(), st.booleans())
@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_any_series_gives_finite_labels_or_one_clear_line(data, name, with_velocities, angle):
    ts, y = data
    assert well_formed(attempt(ts, column(y), column(y[::-1]) if with_velocities else None, name, angles=(angle,)))


@given(series())
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_auto_takes_any_series(data):
    ts, y = data
    labels = attempt(ts, column(y))
    assert well_formed(labels)
    assert isinstance(labels, str) or labels.rate.sd is not None


def test_smoothers_say_how_sure_they_are():
    ts, _, v, a, _, _ = wave()
    for name, method in DERIVATIVES.items():
        if isinstance(method, AbstractSmoother) and name != "spline":
            found = method(ts, column(v))
            assert found.variance is not None
            assert 0.5 < np.sqrt(np.mean((found.value[:, 0] - a) ** 2 / found.variance[:, 0])) < 2.0
