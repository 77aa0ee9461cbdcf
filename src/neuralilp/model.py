"""NeuralILP: x -> IntegerProgram, the composition of cost, constraints and bounds (Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.errors import ShapeError
from neuralilp.program import IntegerProgram


class NeuralILP(nn.Module):
    """A(x), b(x), c(x) and the bounds, as modules; calling it gives the batch of programs for a batch of inputs.

    ``encoder``, where given, is applied to x once, and its output goes to the cost and the constraint modules: two
    heads of one network share it. Anything with the call convention of ``costs`` and ``constraints`` will do.
    """

    def __init__(
        self,
        cost: nn.Module,
        constraints: Sequence[nn.Module],
        box: Box,
        *,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        for i, module in enumerate(constraints):
            num_variables = getattr(module, "num_variables", box.num_variables)
            if num_variables != box.num_variables:
                raise ShapeError(
                    f"constraints[{i}] must have the {box.num_variables} variables of box, got {num_variables}"
                )
        self.cost = cost
        self.constraints = nn.ModuleList(constraints)
        self.box = box
        self.encoder = encoder

    @property
    def num_variables(self) -> int:
        return self.box.num_variables

    def restart(self, index: int) -> NeuralILP:
        """The model with one of the restarts of its constraints, to solve, save or read; the rest is shared."""

        def chosen(module: nn.Module) -> nn.Module:
            if isinstance(module, LearnableConstraints) and module.restarts is not None:
                return module.restart(index)
            return module

        return NeuralILP(self.cost, [chosen(module) for module in self.constraints], self.box, encoder=self.encoder)

    def forward(self, x: Any) -> IntegerProgram:
        if self.encoder is not None:
            x = self.encoder(x)
        cost = self.cost(x)
        if not isinstance(cost, Tensor) or not cost.is_floating_point() or cost.shape[-1:] != (self.num_variables,):
            got = f"{cost.dtype} of shape {tuple(cost.shape)}" if isinstance(cost, Tensor) else type(cost).__name__
            raise ShapeError(f"cost must be a float tensor `*batch {self.num_variables}`, got {got}")
        return IntegerProgram(
            cost=cost,
            bounds=self.box(),
            blocks=tuple(module(x) for module in self.constraints),
            cost_is_learned=getattr(self.cost, "is_learned", True),
        )
