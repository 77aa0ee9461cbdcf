"""Constraints to start training from, estimated from the examples alone."""

from neuralilp.warmstart.kkt import OptimalityFit, fit_optimality_conditions

__all__ = ["OptimalityFit", "fit_optimality_conditions"]
