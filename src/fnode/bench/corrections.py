"""Where the paper contradicts itself, its code or mechanics; what is done here instead; and the evidence."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from fnode.analysis.error_decomposition import slope
from fnode.bench import energy_table, error_analysis
from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.bench.published import ERRORS, SECONDS


@dataclasses.dataclass(frozen=True)
class Found:
    """What the cells say that the evidence quotes."""

    facts: dict[str, Any]
    schemes: dict[str, Any]  # energy drift of integrators with the true field
    slopes: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Correction:
    """One discrepancy: where, what is wrong, what is done here, and how one can see it."""

    where: str
    wrong: str
    here: str
    evidence: str | Callable[[Found], str]


class Corrections(AbstractExperiment):
    """The paper's tables and text against each other, against its released code, and against small computations."""

    name = "corrections"
    title = "Corrections"

    def cells(self, seeds, quick):
        integrators = energy_table.EnergyTable().cells(seeds, quick)[-1]
        return [Cell("evidence", {}, 2.0), integrators, error_analysis.ErrorAnalysis().cells(seeds, quick)[0]]

    def present(self, results):
        facts, integrators, analysis = (result for _, result in results)
        steps = error_analysis.DURATION / np.array(analysis["steps"])
        slopes = {name: slope(steps, np.array(values)) for name, values in analysis["errors"].items()}
        found = Found(facts, integrators["schemes"], slopes)
        rows = tuple(
            (
                str(number),
                one.where,
                one.wrong,
                one.here,
                one.evidence if isinstance(one.evidence, str) else one.evidence(found),
            )
            for number, one in enumerate(CORRECTIONS, 1)
        )
        text = "Figures in the last column are computed by this command, unless a test or a table is named."
        return [Heading("Corrections", text, ("", "where", "what is wrong", "here", "evidence"), rows)]


def _drift(found: Found) -> str:
    rk4, stale = (found.schemes[name] for name in ("rk4", "stale"))
    return (
        f"RK4: drift {100 * rk4['drift'][0]:+.1e} %, error {rk4['mse'][0]:.1e}; with stale stage velocities "
        f"{100 * stale['drift'][0]:+.3f} % and {stale['mse'][0]:.3e}, the published figures"
    )


def _labels(found: Found) -> str:
    return "; ".join(
        f"{system}: differences {errors['difference3']:.1e}, hybrid {errors['hybrid']:.1e}"
        for system, errors in found.facts["labels"].items()
    )


def _slopes(found: Found) -> str:
    return (
        f"slope of the one-step formula {found.facts['one_step_slope']:.2f}, of the whole {found.slopes['RK4']:.2f}; "
        + ", ".join(f"{name} {value:.2f}" for name, value in found.slopes.items() if name != "RK4")
    )


def _cart_pole(found: Found) -> str:
    low, high = found.facts["cart_pole_energy"]
    rising = found.facts["flipped_energy"]
    return (
        f"energy {low:.4f} .. {high:.4f} J over 2.5 s, M = m = 10 kg; with the flipped sign it rises to {rising:.0f} J"
    )


def _swing(found: Found) -> str:
    low, high = found.facts["cart_pole_angles"]
    return f"theta leaves pi/2 at {found.facts['cart_pole_leaves']:.2f} s and covers {low:.2f} .. {high:.2f} rad"


def _crank(found: Found) -> str:
    angle, rate = found.facts["slider_crank_at_1.5_s"]
    return (
        f"(theta1, rate) at 1.5 s = ({angle:.6f}, {rate:.6f}); without the damper energy is constant to "
        f"{found.facts['slider_crank_energy']:.0e} of itself; tests/test_slider_crank.py"
    )


def _residuals(found: Found) -> str:
    worst = ", ".join(f"{value:.0e}" for value in found.facts["constraint_residuals"])
    off = 100 * found.facts["gamma_error"]
    return f"the printed vector is off by {off:.0f} %; residuals here (position, velocity, acceleration): {worst}"


def _speed(found: Found) -> str:
    ratios = [seconds["mbd_node"] / seconds["fnode"] for seconds in SECONDS.values()]
    return f"the published table: {', '.join(f'{ratio:.1f}' for ratio in ratios)} times; table of training times"


CRANK_TESTS = "tests/test_slider_crank.py: two derivations agree, energy is kept"
CORRECTIONS = (
    Correction(
        "energy drift of RK4 (Fig. 2)",
        "13.39 % is the drift of an integrator whose third and fourth stages keep the velocity of the second; RK4 "
        "cannot gain energy here",
        "RK4 as it is; the faulty scheme is kept to show where the figure comes from",
        _drift,
    ),
    Correction(
        "external forces on crank and rod",
        "the torque of the damper between them stands in a force row of the rod, and the crank does not feel it",
        "a torque on both, equal and opposite",
        _crank,
    ),
    Correction(
        "the same damper in the released code",
        "it acts on both bodies with the same sign",
        "equal and opposite",
        CRANK_TESTS,
    ),
    Correction(
        "friction on the slider",
        "the printed force has no direction, and a further force f is not defined",
        "it opposes the motion of the slider, smoothed over 1 mm/s; f = 0",
        "tests/test_mechanisms.py",
    ),
    Correction(
        "spring on the slider",
        "called torsional, in Nm/rad; pushes away from its rest in the released code",
        "-k (x3 - 6.5 m), k = 1 N/m",
        CRANK_TESTS,
    ),
    Correction(
        "lengths of crank and rod",
        "the text swaps r and l against the constraints, which use them as half-lengths",
        "r = 1 m and l = 2 m are half the lengths of crank and rod",
        CRANK_TESTS,
    ),
    Correction(
        "second derivative of the constraints",
        "the rod's terms carry 2 l where the Jacobian has l",
        "both by automatic differentiation of the constraints",
        _residuals,
    ),
    Correction(
        "its seventh row",
        "a rate of theta3 is set to zero where the second derivative of y3 must be",
        "y3'' = 0",
        _residuals,
    ),
    Correction(
        "weight",
        "absent from the printed forces of the slider-crank, present in its data",
        "9.81 m/s² on all three bodies",
        _crank,
    ),
    Correction(
        "slider-crank without friction",
        "the released generator starts in equilibrium: its trajectory is constant",
        "the same mechanism with mu = 0 from the straight pose; angles are not wrapped",
        _crank,
    ),
    Correction(
        "multiplier of the friction force",
        "an inner loop of the released code reads the wrong row, which is always zero",
        "the multiplier is solved together with the friction that it causes",
        "tests/test_slider_crank.py: reference values for mu = 0.15",
    ),
    Correction(
        "cart-pole in the released code",
        "both terms of the squared rate have the opposite sign of the printed equation",
        "the printed equation",
        _cart_pole,
    ),
    Correction("range of the free cart-pole", "said to stay within +-pi/2", "it swings all the way round", _swing),
    Correction(
        "double pendulum",
        "gravity and start in the released code differ from the text",
        "9.81 m/s² and (3 pi/7, 3 pi/4), as printed",
        "tests/test_systems.py",
    ),
    Correction(
        "model predictive control",
        "gravity and bounds differ between the two controllers; a terminal constraint is not mentioned; one linear "
        "model serves all",
        "one plant, one set of bounds, the constraint is a setting; errors of the linear model are printed",
        "experiment `control`",
    ),
    Correction(
        "vehicle",
        "factor 2 of the drive, integrator, precision and start differ between text and code; the file limit cuts "
        "off part of the grid",
        "as printed, with the other factor as an option",
        "tests/test_scale.py; experiment `vehicle`",
    ),
    Correction(
        "labels",
        "training and test part are differentiated together; the hybrid's low-pass bends the signal",
        "every training part is differentiated alone; the recipe `paper` uses three-point differences",
        _labels,
    ),
    Correction(
        "protocol of the single mass-spring-damper",
        "in the released code FNODE alone has exact labels and another step size",
        "the same data and labels for every model",
        "experiment `error_table`",
    ),
    Correction(
        "HNN and LNN",
        "activations, rates, labels and the amount of data differ between text and code",
        "tanh, the same 300 differentiated samples; both rates are shown",
        "experiment `energy_table`",
    ),
    Correction(
        "errors of the triple mass-spring-damper",
        "FNODE 7.4e-4 in the text, 6.1e-3 in the table; MBD-NODE 5.4e-2 in a caption, 6.8e-3 in the table",
        "the table is quoted",
        lambda found: (
            f"table: {ERRORS['triple_mass_spring_damper']['fnode']:.1e} and "
            f"{ERRORS['triple_mass_spring_damper']['mbd_node']:.1e}"
        ),
    ),
    Correction(
        "error of the slider-crank",
        "1.8e-3 in the discussion, 1.7e-1 in the table",
        "the table is quoted",
        "experiment `error_table`",
    ),
    Correction(
        "cart-pole, who is better",
        "the text prefers MBD-NODE, its figures prefer FNODE",
        "figures count",
        lambda found: f"published {ERRORS['cart_pole']['fnode']:.1e} against {ERRORS['cart_pole']['mbd_node']:.1e}",
    ),
    Correction(
        "what dominates the error of the field",
        "differentiation in the conclusions, the network in the section",
        "measured at every step size, for both recipes",
        "verdict of the experiment `error_analysis`",
    ),
    Correction(
        "speed against MBD-NODE", "orders of magnitude in discussion and conclusions", "about two, at batch 1", _speed
    ),
    Correction(
        "inference equation",
        "integrates the acceleration as if it were the rate of the whole state",
        "the rate is (velocity, acceleration)",
        "tests/test_solvers.py: orders of convergence",
    ),
    Correction(
        "asymptotics of the Fourier coefficients",
        "the product of the two printed factors is Delta/dt, not Delta/(2 dt)",
        "only a constant: nothing here depends on it",
        "by multiplication",
    ),
    Correction(
        "taper of the mirrored ends",
        "one formula for both sides, with samples and times mixed up",
        "zero at the far end, one at the data",
        "tests/test_derivatives.py",
    ),
    Correction(
        "what is differentiated",
        "the text says positions, the code takes velocities",
        "velocities where they are measured; positions alone are possible",
        "docs/labels.md",
    ),
    Correction(
        "motor torque of the slider-crank",
        "a function of time that the network cannot see",
        "zero; a torque is an input that the model is given (system `slider_crank_driven`)",
        CRANK_TESTS,
    ),
    Correction(
        "error of the integrator",
        "printed as the error of single steps, discussed as that of the trajectory",
        "the error of the whole trajectory",
        _slopes,
    ),
)
