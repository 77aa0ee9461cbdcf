"""neuralilp learns integer linear programs, cost and constraints, from examples, without a solver while it learns."""
