"""Model predictive control with any field, analytic or learned."""

from fnode.control.cart_pole import Balance, hanging, swing_up
from fnode.control.closed_loop import ClosedLoop, Plant, closed_loop, field_plant
from fnode.control.linearise import Affine, Scheme, discretise, linearise
from fnode.control.mpc import MPC, AbstractLinearisation, AlongPlan, AtPoint, AtState, Plan, riccati
from fnode.control.problem import Problem
from fnode.control.qp import QP, HorizonQP, InfeasibleError
from fnode.control.study import Controlled, control_cart_pole, figures, relative_error

__all__ = [
    "MPC",
    "QP",
    "AbstractLinearisation",
    "Affine",
    "AlongPlan",
    "AtPoint",
    "AtState",
    "Balance",
    "ClosedLoop",
    "Controlled",
    "HorizonQP",
    "InfeasibleError",
    "Plan",
    "Plant",
    "Problem",
    "Scheme",
    "closed_loop",
    "control_cart_pole",
    "discretise",
    "field_plant",
    "figures",
    "hanging",
    "linearise",
    "relative_error",
    "riccati",
    "swing_up",
]
