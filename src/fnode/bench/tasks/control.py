"""The cart-pole balanced by controllers with the analytic model and with learned ones."""

from typing import Any

import numpy as np

from fnode.control import Balance, InfeasibleError, control_cart_pole, figures
from fnode.field import AbstractField
from fnode.learn import run
from fnode.preparation import prepare, resolved
from fnode.systems import ForcedCartPole

SYSTEM = "cart_pole_forced"


def closed_loops(recipe: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The closed loops of the analytic model and of one learned by a recipe; `infeasible` says why one is missing."""
    plant, task = ForcedCartPole(), Balance()
    config = resolved({"system": SYSTEM, **(settings or {})}, recipe, SYSTEM)
    fields: dict[str, AbstractField] = {"analytic": plant, "learned": run(config, prepare(config)).model.member()}
    found, arrays, infeasible = {}, {}, None
    for name, field in fields.items():
        try:
            found[name] = control_cart_pole(plant, field, task, swings=0)
        except InfeasibleError as error:
            infeasible = str(error)
            continue
        balance = found[name].balance
        parts = {"ts": balance.ts, "states": balance.states, "inputs": balance.inputs}
        arrays |= {f"{name}.{part}": np.asarray(values) for part, values in parts.items()}
    return {"infeasible": infeasible, "figures": figures(found), "arrays": arrays}
