"""The paper's systems, one mechanism per file."""

from fnode.errors import choose
from fnode.systems._base import AbstractFirstOrder, AbstractMechanical, AbstractSystem, Case, Parameter, Protocol
from fnode.systems.cart_pole import CartPole, ForcedCartPole
from fnode.systems.double_pendulum import DoublePendulum
from fnode.systems.mass_spring import MassSpring, MassSpringDamper
from fnode.systems.simulate import configured, noisy, recordings, simulate, started
from fnode.systems.slider_crank import DrivenSliderCrank, SliderCrank, SliderCrankFriction
from fnode.systems.triple_mass_spring_damper import TripleMassSpringDamper
from fnode.systems.vehicle import Vehicle

SYSTEMS: dict[str, type[AbstractSystem]] = {
    "mass_spring": MassSpring,
    "mass_spring_damper": MassSpringDamper,
    "triple_mass_spring_damper": TripleMassSpringDamper,
    "double_pendulum": DoublePendulum,
    "cart_pole": CartPole,
    "cart_pole_forced": ForcedCartPole,
    "slider_crank": SliderCrank,
    "slider_crank_friction": SliderCrankFriction,
    "slider_crank_driven": DrivenSliderCrank,
    "vehicle": Vehicle,
}


def system_named(name: str) -> type[AbstractSystem]:
    """The class of the system with this name, or an error that lists the names there are."""
    return SYSTEMS[choose("system", name, SYSTEMS)]


__all__ = [
    "SYSTEMS",
    "AbstractFirstOrder",
    "AbstractMechanical",
    "AbstractSystem",
    "CartPole",
    "Case",
    "DoublePendulum",
    "DrivenSliderCrank",
    "ForcedCartPole",
    "MassSpring",
    "MassSpringDamper",
    "Parameter",
    "Protocol",
    "SliderCrank",
    "SliderCrankFriction",
    "TripleMassSpringDamper",
    "Vehicle",
    "configured",
    "noisy",
    "recordings",
    "simulate",
    "started",
    "system_named",
]
