"""Rival systems, written from their publications, to train and measure beside ILP-Loss."""

from neuralilp.baselines.comboptnet import CombOptNetStep, CombOptNetTerms, differentiable_solve

__all__ = ["CombOptNetStep", "CombOptNetTerms", "differentiable_solve"]
from neuralilp.baselines.rrn import RRN as RRN
from neuralilp.baselines.rrn import RRNStep as RRNStep
from neuralilp.baselines.rrn import board_neighbours as board_neighbours
from neuralilp.baselines.satnet import SATNet as SATNet
from neuralilp.baselines.satnet import SATNetStep as SATNetStep
