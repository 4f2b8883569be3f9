"""`fnode control`: model predictive control with the analytic model and with a learned one."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._shared import Settings, app, console, prepare_jax, progress_bar
from fnode.errors import InputError

TASKS = ("cart_pole", "cart_pole_forced")  # two names of the same: the cart-pole to be controlled has an input


@app.command()
def control(
    system: Annotated[str, typer.Argument(help="What is controlled: cart_pole.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for report and figures.")],
    run: Annotated[Path | None, typer.Argument(help="A finished run; without one a model is learned.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Of the model that is learned: see `fnode list recipes`.")] = None,
    settings: Settings = None,
    compare_labels: Annotated[
        bool, typer.Option(help="Learn a second time from the analytic accelerations, to compare.")
    ] = True,
    swing_ups: Annotated[int, typer.Option(min=0, help="Swing-ups from hanging.")] = 10,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
) -> None:
    """Balance and swing up the cart-pole with a learned model. Example: `fnode control cart_pole -o runs/control`.

    `--set` changes a number of the task (`horizon`, `discretisation=exact`, `linearisation=plan`, `u_max`, ...), of the
    plant, or of the training.
    """
    prepare_jax()
    from fnode.control import InfeasibleError, control_cart_pole, figures
    from fnode.run_folder import MODEL, RunFolder

    plant, task, config = _asked(system, settings or [], recipe)
    folder = RunFolder(output)
    folder.check(force=force, resume=resume)
    if run is not None and run.resolve().is_relative_to(output.resolve()):
        raise InputError(f"{run} lies inside {output}, which would be replaced: choose another -o")
    model = None if run is None else _loaded(run)
    if model is not None and not config.parameters:
        plant = _plant(model.config.parameters if model.config.system in TASKS else {})
    with _loops_bar(1 + swing_ups) as told:  # first, because a task without a solution needs no model
        found = {"analytic": control_cart_pole(plant, plant, task, swings=swing_ups, told=told)}
    folder.empty(force=force, resume=resume)
    fields = {}
    if model is None:
        model, fields = _learned(config, output / MODEL, resume=resume, compare=compare_labels)
    with _loops_bar((1 + swing_ups) * (1 + len(fields))) as told:
        for name, field in {"learned": model.member(), **fields}.items():
            try:
                found[name] = control_cart_pole(plant, field, task, swings=swing_ups, told=told)
            except InfeasibleError as error:
                raise InputError(f"with the {name.replace('_', ' ')} model: {error}") from None
    _write(folder, model, plant, task, found, figures(found), run)


def _asked(system: str, assignments: list[str], recipe: str | None):
    """The plant, the task and the configuration of the training, from the command's words."""
    import dataclasses

    from fnode.config import merged, settings
    from fnode.control import Balance
    from fnode.preparation import resolved
    from fnode.recipes import default_recipe
    from fnode.systems import ForcedCartPole, system_named

    system_named(system)
    if system not in TASKS:
        raise InputError(f"there is no control task for '{system}': choose one of {', '.join(TASKS)}")
    physical = [field.name for field in dataclasses.fields(ForcedCartPole)]
    # The task's names go where a system's states usually do, and hide those of the data: `dt` is the controller's.
    given = settings(assignments, physical, list(Balance.model_fields))
    task = Balance.of(given.pop("start", {}))
    parameters = given.get("parameters", {})
    values = merged(given, {"system": "cart_pole_forced", "parameters": parameters})
    return _plant(parameters), task, resolved(values, recipe or default_recipe(), "cart_pole_forced")


def _plant(parameters: dict):
    from fnode.systems import ForcedCartPole, configured

    return configured(ForcedCartPole, parameters)


def _loaded(run: Path):
    """The model of a run, if it can drive the cart-pole."""
    from fnode.model import Model
    from fnode.systems import ForcedCartPole

    model, needed = Model.load(run), ForcedCartPole.columns
    for kind in ("coordinates", "inputs", "parameters"):
        has, wants = ([column.name for column in getattr(columns, kind)] for columns in (model.columns, needed))
        if has != wants:
            raise InputError(
                f"the model of {run} has {kind} {_list(has)}, but this control task needs {_list(wants)}: "
                "learn one from such data, as `fnode learn cart_pole_forced` does"
            )
    return model


def _list(names) -> str:
    return ", ".join(names) or "none"


def _learned(config, folder: Path, *, resume: bool, compare: bool):
    """The model learned by differentiation, kept in a run folder, and fields learned otherwise, for comparison."""
    from fnode.cli.learn import learn_into
    from fnode.learn import run as run_learning
    from fnode.model import Model
    from fnode.preparation import exactly_labelled, prepare

    learn_into(config, folder, resume=resume, force=False)
    fields = {}
    if compare and config.data.noise == 0:
        exact = [exactly_labelled(part) for part in prepare(config)]
        fields["exact_labels"] = run_learning(config, exact).model.member()
    return Model.load(folder), fields


@contextlib.contextmanager
def _loops_bar(total: int):
    """A progress bar over closed loops."""
    with progress_bar("{task.completed} of {task.total}") as bar:
        task = bar.add_task("closed loops", total=total)
        yield lambda: bar.advance(task)


def _write(folder, model, plant, task, found: dict, figures: dict, run: Path | None) -> None:
    """Everything the folder holds, and a table on the terminal."""
    import json

    import tomli_w

    from fnode import io
    from fnode.report import control_page
    from fnode.run_folder import CONFIG, PREDICTION, REPORT, SCORES
    from fnode.scores import control_scores

    settings = {"system": "cart_pole_forced", "control": task.model_dump(exclude_none=True)}
    settings |= {} if run is None else {"run": str(run)}
    written = tomli_w.dumps(settings)
    io.write_text(folder.path / CONFIG, written)
    io.write(folder.path / PREDICTION, {name: one.balance.trajectory(model.columns) for name, one in found.items()})
    scored = control_scores(model, "cart_pole", figures)
    io.write_text(folder.path / SCORES, json.dumps(scored, indent=2, allow_nan=False) + "\n")
    io.write_text(folder.path / REPORT, control_page(scored, found, written, length=float(plant.length)))
    folder.log(f"control cart_pole: {', '.join(found)}")
    console.print(_table(figures))
    console.print(f"report: {folder.path / REPORT}", highlight=False)


def _table(figures: dict) -> Table:
    """One column per model."""
    table = Table("", *(name.replace("_", " ") for name in figures), title="cart_pole: model predictive control")

    def row(name: str, shown) -> None:
        table.add_row(name, *(shown(one) for one in figures.values()))

    def times(taken: dict) -> str:
        return f"{taken['median']:.2f} / {taken['p99']:.2f} ms"

    row("first input", lambda one: f"{one['first_input']:.2f} N")
    row("peak input", lambda one: f"{one['peak_input']:.2f} N")
    row("settled after", lambda one: _seconds(one["settling_time"]))
    row("solve, median / p99", lambda one: times(one["solve_ms"]))
    row("error of A", lambda one: f"{100 * one['linearisation']['error_a']:.2g} %")
    row("error of B", lambda one: f"{100 * one['linearisation']['error_b']:.2g} %")
    if all(one["swing_up"] for one in figures.values()):
        row("swing-ups", lambda one: f"{one['swing_up']['succeeded']} of {one['swing_up']['starts']}")
    return table


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
