"""neuralilp learns integer linear programs, cost and constraints, from examples, without a solver while it learns."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from neuralilp.annealing import MilestoneTemperature as MilestoneTemperature
from neuralilp.annealing import PlateauTemperature as PlateauTemperature
from neuralilp.balancing import CoefficientOfVariation as CoefficientOfVariation
from neuralilp.balancing import FixedWeights as FixedWeights
from neuralilp.balancing import SteeredWeights as SteeredWeights
from neuralilp.blocks import Bounds as Bounds
from neuralilp.blocks import ConstraintBlock as ConstraintBlock
from neuralilp.constraints import Box as Box
from neuralilp.constraints import KnownConstraints as KnownConstraints
from neuralilp.constraints import LearnableConstraints as LearnableConstraints
from neuralilp.constraints import NetworkConstraints as NetworkConstraints
from neuralilp.costs import KnownCost as KnownCost
from neuralilp.costs import LearnableCost as LearnableCost
from neuralilp.costs import NetworkCost as NetworkCost
from neuralilp.errors import BackendMissingError as BackendMissingError
from neuralilp.errors import FileFormatError as FileFormatError
from neuralilp.errors import InputError as InputError
from neuralilp.errors import LicenceError as LicenceError
from neuralilp.errors import NeuralILPError as NeuralILPError
from neuralilp.errors import ShapeError as ShapeError
from neuralilp.evidence import valid_cuts as valid_cuts
from neuralilp.export import export as export
from neuralilp.export import read_program as read_program
from neuralilp.loss import ILPLoss as ILPLoss
from neuralilp.metrics import cost_gap as cost_gap
from neuralilp.metrics import feasibility as feasibility
from neuralilp.metrics import variable_accuracy as variable_accuracy
from neuralilp.metrics import vector_accuracy as vector_accuracy
from neuralilp.model import NeuralILP as NeuralILP
from neuralilp.negatives import BatchNegatives as BatchNegatives
from neuralilp.negatives import Draw as Draw
from neuralilp.negatives import ImprovingNeighbours as ImprovingNeighbours
from neuralilp.negatives import KHop as KHop
from neuralilp.negatives import Negatives as Negatives
from neuralilp.negatives import NegativeSampler as NegativeSampler
from neuralilp.negatives import OneHop as OneHop
from neuralilp.negatives import ProjectAndSample as ProjectAndSample
from neuralilp.negatives import SolverNegatives as SolverNegatives
from neuralilp.negatives import Union as Union
from neuralilp.negatives import admissible as admissible
from neuralilp.plotting import plot_program as plot_program
from neuralilp.polishing import Polishing as Polishing
from neuralilp.polishing import polish as polish
from neuralilp.program import IntegerProgram as IntegerProgram
from neuralilp.solving import CutPool as CutPool
from neuralilp.solving import Solution as Solution
from neuralilp.solving import Status as Status
from neuralilp.solving import available_backends as available_backends
from neuralilp.solving import solve as solve
from neuralilp.step import LossStep as LossStep
from neuralilp.storage import load as load
from neuralilp.storage import save as save
from neuralilp.terms import LossTerms as LossTerms
from neuralilp.warmstart import affine_hull as affine_hull
from neuralilp.warmstart import fit_optimality_conditions as fit_optimality_conditions

__version__ = _version("neuralilp")

if _TYPE_CHECKING:
    from neuralilp.estimator import ProgramLearner as ProgramLearner


def __getattr__(name: str) -> _Any:
    """ProgramLearner is imported when it is used: scikit-learn, which it builds on, takes a second."""
    if name == "ProgramLearner":
        from neuralilp.estimator import ProgramLearner

        return ProgramLearner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
