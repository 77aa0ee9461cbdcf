"""Rival systems, written from their publications, to train and measure beside ILP-Loss."""

from neuralilp.baselines.comboptnet import CombOptNetStep, CombOptNetTerms, differentiable_solve

__all__ = ["CombOptNetStep", "CombOptNetTerms", "differentiable_solve"]
