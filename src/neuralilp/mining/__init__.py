"""Rules out of a table of solutions, with their costs or without: rows that hold on all and are no accident."""

from neuralilp.mining.candidates import pair_rows, slice_rows
from neuralilp.mining.chance import expected_violations
from neuralilp.mining.doubts import doubtful
from neuralilp.mining.selecting import Mined, mine_rules, supported_rows
from neuralilp.mining.separating import sparsest_separating

__all__ = [
    "Mined",
    "doubtful",
    "expected_violations",
    "mine_rules",
    "pair_rows",
    "slice_rows",
    "sparsest_separating",
    "supported_rows",
]
