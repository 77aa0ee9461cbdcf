"""SATNet (Wang et al. 2019): clauses of a MAXSAT problem, learnt through its semidefinite relaxation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.baselines.mixing import mix
from neuralilp.errors import InputError, ShapeError

AWAY = 1e-4
"""How far probabilities are kept from 0 and 1 in the loss: it is finite, and never without a gradient."""


class SATNet(nn.Module):
    """x -> the probability of each variable, `*batch var`, from learnt clauses over these and auxiliary variables.

    Each variable is a unit vector v_i, "true" is v_0, and the probability is the angle between v_i and -v_0, over π.
    A given variable with probability p has its vector at that angle, in a direction of its own; the others, and the
    auxiliary ones, are those of :func:`~neuralilp.baselines.mixing.mix`, with ``sweeps``, ``tolerance`` and
    ``damping`` as there. Nothing is known about which variables belong together, but that x is given in cells.

    A cell is ``digits`` variables, of which one is true. In x, `*batch var`, a cell of zeros alone is to be found and
    every other is given. With a ``perception`` network (images -> `*batch cell digit` logits), x are images, those
    that are zero everywhere are to be found, and the softmax of its logits gives the others.

    Where the vectors start is drawn once, with the clauses, and kept among the weights: the same x has the same
    answer, as far as all of a batch have converged. The scale of the clauses does not matter to it.
    """

    start: Tensor

    def __init__(
        self,
        num_variables: int,
        *,
        digits: int,
        clauses: int,
        auxiliary: int,
        perception: nn.Module | None = None,
        sweeps: int = 40,
        tolerance: float = 1e-2,
        damping: float = 1e-2,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if digits < 1 or num_variables % digits:
            raise InputError(f"num_variables must be a multiple of digits, got {num_variables} and {digits}")
        if clauses < 1 or auxiliary < 0:
            raise InputError(f"clauses must be positive and auxiliary not negative, got {clauses} and {auxiliary}")
        self.num_variables, self.digits = num_variables, digits
        self.perception = perception
        self.sweeps, self.tolerance, self.damping = sweeps, tolerance, damping
        total = 1 + num_variables + auxiliary
        rank = math.ceil(math.sqrt(2 * total)) + 1
        self.clauses = nn.Parameter(torch.randn(clauses, total, generator=generator) / math.sqrt(total + clauses))
        start = functional.normalize(torch.randn(total, rank, generator=generator), dim=-1)
        start[0] = functional.one_hot(torch.tensor(0), rank)
        self.register_buffer("start", start)

    def forward(self, x: Tensor) -> Float[Tensor, "*batch var"]:
        return self.complete(*self.given(x))

    def given(self, x: Tensor) -> tuple[Float[Tensor, "*batch var"], Bool[Tensor, "*batch var"]]:
        """Probabilities for the given variables, and which these are."""
        if self.perception is None:
            if x.shape[-1:] != (self.num_variables,):
                raise ShapeError(f"x must be `*batch {self.num_variables}`, got {tuple(x.shape)}")
            return x, self._per_variable(x.unflatten(-1, (-1, self.digits)).any(-1))
        z = self.perception(x).softmax(-1)
        if z.shape[-2:] != (self.num_variables // self.digits, self.digits):
            raise ShapeError(
                f"perception must return `*batch {self.num_variables // self.digits} {self.digits}`, "
                f"got {tuple(z.shape)} for x {tuple(x.shape)}"
            )
        return z.flatten(-2), self._per_variable(x.flatten(-2).any(-1))

    def complete(
        self, given: Float[Tensor, "*batch var"], is_given: Bool[Tensor, "*batch var"]
    ) -> Float[Tensor, "*batch var"]:
        """``given`` where it is, and elsewhere the probabilities of the relaxation's answer."""
        shape = given.shape
        z, is_free = given.reshape(-1, shape[-1]).T, ~is_given.reshape(-1, shape[-1]).T
        total = len(self.start)
        start = self.start.unsqueeze(1).expand(-1, z.shape[1], -1)
        first, rest = slice(1, 1 + self.num_variables), slice(1 + self.num_variables, total)
        v = mix(
            self.clauses,
            torch.cat([start[:1], torch.where(is_free.unsqueeze(-1), start[first], self._at(z)), start[rest]]),
            torch.cat([is_free.new_zeros(1, z.shape[1]), is_free, is_free.new_ones(len(start[rest]), z.shape[1])]),
            sweeps=self.sweeps,
            tolerance=self.tolerance,
            damping=self.damping,
        )[first]
        # The angle as a quotient, not as an arc cosine, whose gradient has no bound where a variable is certain.
        angle = torch.atan2(torch.linalg.vector_norm(v[..., 1:], dim=-1), -v[..., 0])
        return torch.where(is_free, angle / math.pi, z).T.reshape(shape)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Float[Tensor, "*batch var"]:
        """A one-hot a cell: its most probable digit."""
        return self.decode(self(x))

    def decode(self, probability: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch var"]:
        digit = probability.detach().unflatten(-1, (-1, self.digits)).argmax(-1)
        return functional.one_hot(digit, self.digits).flatten(-2).to(probability.dtype)

    def _at(self, z: Float[Tensor, "var batch"]) -> Float[Tensor, "var batch rank"]:
        """The vectors of given variables: z of the way from -v_0 to v_0, through where the variable would start."""
        across = self.start[1 : 1 + len(z), 1:]
        across = (across / torch.linalg.vector_norm(across, dim=-1, keepdim=True)).unsqueeze(1)
        angle = (math.pi * z).unsqueeze(-1)
        return torch.cat([-angle.cos(), angle.sin() * across], -1)

    def _per_variable(self, is_given: Bool[Tensor, "*batch cell"]) -> Bool[Tensor, "*batch var"]:
        return is_given.repeat_interleave(self.digits, -1)


class SATNetTerms(NamedTuple):
    """What there is to see of a batch; each is a mean over it."""

    cross_entropy: Float[Tensor, ""]
    vector_accuracy: Float[Tensor, ""]
    """Share of the examples with every cell right."""


class SATNetStep(nn.Module):
    """x, y* -> the loss and its terms; ``backward`` and the optimiser are the caller's.

    The loss is the binary cross entropy of the variables that are not given, for images that of all variables: y* says
    what is in the given cells too, and perception learns from it. Published for 9×9 sudoku: 600 clauses, 300 auxiliary
    variables, Adam 2e-3 (1e-5 for perception), batches of 40, 100 epochs.
    """

    def __init__(self, model: SATNet) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], SATNetTerms]:
        """Nothing is drawn and nothing has a temperature: both arguments are there for the training loop."""
        given, is_given = self.model.given(x)
        if given.shape != solution.shape:
            raise ShapeError(f"solution must be {tuple(given.shape)}, as x has it, got {tuple(solution.shape)}")
        probability = self.model.complete(given, is_given)
        counts = torch.ones_like(is_given) if self.model.perception is not None else ~is_given
        each = functional.binary_cross_entropy(AWAY + (1 - 2 * AWAY) * probability, solution, reduction="none")
        loss = torch.where(counts, each, 0).sum() / counts.sum().clamp(min=1)
        is_right = (self.model.decode(probability) == solution).all(-1)
        return loss, SATNetTerms(loss.detach(), is_right.to(loss.dtype).mean())
