"""The paper's tables and figures, by their numbers and names, and further studies."""

from fnode.bench.control import Control
from fnode.bench.corrections import Corrections
from fnode.bench.data_efficiency import DataEfficiency
from fnode.bench.energy_table import EnergyTable
from fnode.bench.error_analysis import ErrorAnalysis
from fnode.bench.error_table import ErrorTable
from fnode.bench.experiment import AbstractExperiment
from fnode.bench.friction_depth import FrictionDepth
from fnode.bench.friction_phases import FrictionPhases
from fnode.bench.hyperparameters import Hyperparameters
from fnode.bench.label_study import LabelStudy
from fnode.bench.motions import Motions
from fnode.bench.schematics import Schematics
from fnode.bench.tracking import Tracking
from fnode.bench.training_time import TrainingTime
from fnode.bench.vehicle import Vehicle

SUITE: tuple[AbstractExperiment, ...] = (
    Hyperparameters(),  # Tables 1 to 6, 8
    Schematics(),  # Fig. 7, 10, 13, 21
    EnergyTable(),  # Fig. 2
    Motions("mass_spring_damper", "Single mass-spring-damper", "mass_spring_damper", time=3, phase=4),
    ErrorAnalysis(),  # Fig. 5, 6
    Motions("triple_mass_spring_damper", "Triple mass-spring-damper", "triple_mass_spring_damper", time=8, phase=9),
    Motions("double_pendulum", "Double pendulum", "double_pendulum", time=11, phase=12),
    Motions("slider_crank", "Slider-crank without friction", "slider_crank", time=14, complete=(15, 16, 17, 18)),
    FrictionPhases(),  # Fig. 19
    FrictionDepth(),  # Table 7, Fig. 20
    Motions("cart_pole", "Cart-pole", "cart_pole", time=23, phase=22),
    Control(),  # Fig. 24
    Vehicle(),  # Tables 9 to 11, Fig. 25
    Tracking(),  # Fig. 26
    TrainingTime(),  # Table 12
    ErrorTable(),  # Table 13
    Corrections(),
    LabelStudy(),  # beyond the paper
    DataEfficiency(),
)
EXPERIMENTS: dict[str, AbstractExperiment] = {experiment.name: experiment for experiment in SUITE}
