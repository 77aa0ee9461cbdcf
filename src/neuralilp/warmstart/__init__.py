"""Constraints to start training from, estimated from the examples alone."""

from neuralilp.warmstart.affine_hull import AffineHull, affine_hull
from neuralilp.warmstart.kkt import OptimalityFit, fit_optimality_conditions

__all__ = ["AffineHull", "OptimalityFit", "affine_hull", "fit_optimality_conditions"]
