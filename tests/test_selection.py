"""Laws of the choice among structures: the test part is never seen, what runs away is never chosen."""

import copy
import dataclasses
import math
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fnode
from fnode import selection
from fnode.config import Network
from fnode.errors import InputError
from fnode.learn import run
from fnode.preparation import part_of, prepare, resolved
from fnode.recipes import recipe_values
from fnode.scores import scores
from fnode.selection import Verdict
from fnode.solvers import solver_named
from fnode.structures import fresh
from fnode.systems import MassSpringDamper, simulate
from fnode.trajectory import Trajectory

LIBRARIES = {"library", "library_network"}


@pytest.fixture(scope="module")
def swing() -> Trajectory:
    return simulate(MassSpringDamper(), 0.05 * jnp.arange(80), start=MassSpringDamper.protocol.start)


def learned(swing, recipe):
    config = resolved({}, recipe, None)
    return run(config, prepare(config, fnode.read(swing)))


@pytest.fixture(scope="module")
def runs(swing):
    return {recipe: learned(swing, recipe) for recipe in ("auto", "network")}


def test_a_linear_system_is_found_by_a_library_with_nothing_random(runs):
    found = runs["auto"].trained[0].seeds[0]
    told = scores(runs["auto"])
    assert found.network.structure == told["structure"] == "library"
    assert found.deterministic
    assert told["deterministic"]
    assert told["median"]["mse"]["full"] < 1e-10


def test_the_recipe_network_never_turns_to_a_library(runs):
    found = runs["network"].trained[0].seeds[0]
    assert not {verdict.network.structure for verdict in found.ranking} & LIBRARIES
    assert not {network.structure for network in runs["network"].model.networks} & LIBRARIES
    assert scores(runs["network"])["median"]["mse"]["full"] < 1e-10
    for system in (None, "double_pendulum"):
        assert not set(recipe_values("network", system)["training"]["structures"]) & LIBRARIES


def test_the_search_may_be_restricted_to_one_structure_but_not_to_none():
    for given in ("quadratic", ["quadratic"]):
        assert resolved({"training": {"structures": given}}, "auto", None).training.structures == ("quadratic",)
    for given in ("", "soup"):
        with pytest.raises(InputError, match="structures"):
            resolved({"training": {"structures": given}}, "auto", None)


def test_recipes_know_no_system():
    for recipe in ("auto", "network"):
        assert recipe_values(recipe, "double_pendulum") == recipe_values(recipe, None)


def test_the_ranking_is_sorted_and_the_chosen_one_about_the_best(runs):
    for done in runs.values():
        found = done.trained[0].seeds[0]
        merits = [verdict.merit for verdict in found.ranking]
        assert merits == sorted(merits)
        own = min(v.merit for v in found.ranking if v.network == found.network)
        assert own <= selection.AS_GOOD * merits[0]


def test_the_test_part_never_matters(swing, runs):
    """The first three quarters are for training; the rest may be anything."""
    first = 60
    broken = dataclasses.replace(
        swing,
        x=jax.tree.map(lambda leaf: leaf.at[first:].set(7.0 + jnp.arange(20.0)[:, None] ** 2), swing.x),
        a=None,
    )
    for recipe, done in runs.items():
        ours, theirs = (
            jax.tree.leaves(eqx.filter(model.members, eqx.is_array))
            for model in (done.model, fnode.learn(broken, recipe=recipe))
        )
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, other)


@pytest.fixture(scope="module")
def problem(swing):
    config = resolved({}, "auto", None)
    (prepared,) = prepare(config, fnode.read(swing))
    part = part_of(prepared.recordings[0], prepared.labels[0], config.labels)
    return selection.Problem(swing.columns, [part], solver_named("rk4"), 0.0)


def spring(columns, stiffness):
    """A unit mass on a spring, as a library."""
    library = fresh(Network(structure="library", degree=0), columns, jax.random.key(0))
    square = library.stored.terms.index((2,))
    return eqx.tree_at(
        lambda f: (f.mass, f.potential),
        library,
        (jnp.ones_like(library.mass), library.potential.at[square].set(stiffness / 2)),
    )


def test_what_runs_away_counts_as_infinitely_wrong_and_is_never_chosen(problem):
    wild, tame = spring(problem.columns, -1e9), spring(problem.columns, 5.0)
    away, near = problem.judge([[wild, tame]] * len(problem.folds))
    assert max(away) == math.inf
    assert max(near) < 0.5
    network = Network(structure="library", degree=0)
    candidates = [
        selection.Candidate(Verdict(network, 0.0, errors), (), lambda fold: (tame, np.zeros(0)))
        for errors in (away, near)
    ]
    assert selection.best_of(candidates) is candidates[1]


def test_what_has_nothing_random_is_tried_once_for_all_seeds(problem, monkeypatch):
    search, field = sys.modules[selection.select.__module__], spring(problem.columns, 5.0)

    def judged(structure, error):
        verdict = Verdict(Network(structure=structure), 0.0, (error,))
        return iter([selection.Candidate(verdict, (field,), lambda fold: (field, np.zeros(0)))])

    monkeypatch.setattr(search, "NETWORKS", (Network(structure="mlp"),))
    monkeypatch.setattr(search, "networks", lambda problem, network, key: judged("mlp", 0.5))
    for error, tried in ((0.5, ["library"] * 3 + ["mlp"] * 2), (0.0, ["library"])):
        monkeypatch.setattr(search, "libraries", lambda problem, *kind, error=error: judged("library", error))
        said = []
        choices = selection.select(
            problem.columns,
            problem.parts,
            structures=("library", "mlp"),
            noise=0.0,
            solver=problem.solver,
            keys=list(jax.random.split(jax.random.key(0))),
            report=said.append,
        )
        assert [line.split(",")[0] for line in said] == tried
        assert len(choices) == max(1, tried.count("mlp"))


def test_a_cheaper_candidate_wins_where_it_is_about_as_good(problem):
    def candidate(*errors):
        return selection.Candidate(Verdict(selection.LINEAR, 0.0, errors), (), lambda fold: (None, np.zeros(0)))

    cheap, rich, best = candidate(1.1, 1.0), candidate(1.0, 1.0), candidate(0.1, 0.1)
    assert selection.best_of([cheap, rich]) is cheap
    assert selection.best_of([rich, cheap]) is rich
    assert selection.best_of([cheap, rich, best]) is best
    finer, worse = (dataclasses.replace(candidate(*errors), polished_from=cheap) for errors in ((1.0, 1.0), (1.2, 1.1)))
    assert selection.best_of([cheap, rich, finer]) is finer
    assert selection.best_of([cheap, rich, worse]) is cheap


def test_the_worst_window_and_the_typical_one_both_count():
    assert selection.merit((1e-2, 1e-4, 1e-4)) < selection.merit((1e-2, 1e-2, 1e-2))
    assert selection.merit((1e-4, 1e-4, 1e-4)) < selection.merit((1e-2, 1e-6, 1e-4))
    assert selection.merit((1e-9, math.inf)) == math.inf


def test_a_fold_judges_by_windows_that_cross_what_it_holds_out(problem):
    times = np.asarray(problem.samples.t)
    for fold in problem.folds:
        used = problem.used(fold)
        assert used.any()
        assert not used.all()
        for _, since, until in fold.held:
            assert not np.any(used & (times >= since) & (times <= until))
            assert any(float(trial.ts[0]) < since and float(trial.ts[-1]) >= until for trial in fold.trials)
        weight = problem.masked(fold).weight
        np.testing.assert_array_equal(np.asarray(weight).any(axis=1), used)


def test_several_trajectories_are_held_out_as_a_whole(problem):
    parts = problem.parts * 6
    for fold in selection.folds(parts):
        numbers = {number for number, _, _ in fold.held}
        assert 0 < len(numbers) < len(parts)
        assert all(not fold.allows(number, -1e9, 1e9) for number in numbers)
        assert all(fold.allows(number, -1e9, 1e9) for number in set(range(6)) - numbers)


def test_windows_of_one_length_are_judged_together_as_they_are_one_by_one(problem):
    fields = [[spring(problem.columns, 4.0), spring(problem.columns, 5.0)]] * len(problem.folds)
    together = problem.judge(fields)
    apart = copy.copy(problem)
    # A window one sample shorter is of no other's shape; the others stay as they are.
    first = problem.folds[0]
    short = jax.tree.map(lambda leaf: leaf[:-1], first.trials[0])
    apart.folds = (dataclasses.replace(first, trials=(short, *first.trials[1:])), *problem.folds[1:])
    for whole, cut in zip(together, apart.judge(fields), strict=True):
        np.testing.assert_allclose(whole[1:], cut[1:], rtol=1e-10)


def test_noisy_data_too_few_for_any_library_still_get_a_model():
    rng, ts = np.random.default_rng(0), 0.05 * np.arange(14)
    q = np.stack([np.cos((1 + 0.1 * k) * ts) for k in range(4)], axis=1) + 0.01 * rng.normal(size=(14, 4))
    model = fnode.learn((ts, q), training={"structures": ("library", "linear_skip")})
    assert model.networks[0].structure == "linear_skip"
