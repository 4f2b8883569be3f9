"""The cart-pole balanced by controllers with the analytic model and with learned ones."""

from typing import Any

import numpy as np

from fnode.control import Balance, InfeasibleError, control_cart_pole, figures
from fnode.field import AbstractField
from fnode.learn import run
from fnode.preparation import prepare, resolved
from fnode.systems import ForcedCartPole

SYSTEM = "cart_pole_forced"


def closed_loops(recipe: str | None, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The closed loop of one model, learned by a recipe (none: the analytic one), and of the analytic model."""
    plant, task = ForcedCartPole(), Balance()
    fields: dict[str, AbstractField] = {"analytic": plant}
    if recipe is not None:
        config = resolved({"system": SYSTEM, **(settings or {})}, recipe, SYSTEM)
        fields["learned"] = run(config, prepare(config)).model.member()
    found, arrays = {}, {}
    for name, field in fields.items():
        try:
            found[name] = control_cart_pole(plant, field, task, swings=0)
        except InfeasibleError as error:
            return {"infeasible": str(error), "figures": None, "arrays": arrays}
        balance = found[name].balance
        arrays |= {f"{name}.ts": balance.ts, f"{name}.states": balance.states, f"{name}.inputs": balance.inputs}
    arrays = {name: np.asarray(values) for name, values in arrays.items()}
    return {"infeasible": None, "figures": figures(found), "arrays": arrays}
