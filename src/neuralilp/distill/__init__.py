"""Learnt constraints -> few, sparse, integer rules that a person can read."""

from neuralilp.distill.replacing import implied_rows, same_row_space, with_rules
from neuralilp.distill.rules import Distilled, distill
from neuralilp.distill.sentences import Axes, Sentence, explain, sentences

__all__ = [
    "Axes",
    "Distilled",
    "Sentence",
    "distill",
    "explain",
    "implied_rows",
    "same_row_space",
    "sentences",
    "with_rules",
]
