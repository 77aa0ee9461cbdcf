"""Negative sampling (Section 3.3): one family of samplers a file."""

from neuralilp.negatives.base import Draw as Draw
from neuralilp.negatives.base import Negatives as Negatives
from neuralilp.negatives.base import NegativeSampler as NegativeSampler
from neuralilp.negatives.base import admissible as admissible
from neuralilp.negatives.batch import BatchNegatives as BatchNegatives
from neuralilp.negatives.neighbours import ImprovingNeighbours as ImprovingNeighbours
from neuralilp.negatives.neighbours import KHop as KHop
from neuralilp.negatives.neighbours import OneHop as OneHop
from neuralilp.negatives.projection import ProjectAndSample as ProjectAndSample
from neuralilp.negatives.solver import SolverNegatives as SolverNegatives
from neuralilp.negatives.union import Union as Union
