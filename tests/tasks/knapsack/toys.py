"""A small knapsack whose vectors say prices and weights plainly."""

from __future__ import annotations

import functools

import torch

from neuralilp.tasks.knapsack.data import Corpus, KnapsackData, Truth, draw_instances
from neuralilp.tasks.knapsack.sentences import PRICES, WEIGHTS, Item


@functools.cache
def toy(num_items: int = 4, sentences: int = 60, train: int = 80) -> KnapsackData:
    """Vectors are price and weight, scaled, and a little noise around them."""
    generator = torch.Generator().manual_seed(0)
    items = [
        Item(
            f"item {i}",
            int(torch.randint(WEIGHTS[0], WEIGHTS[1] + 1, (), generator=generator)),
            int(torch.randint(PRICES[0], PRICES[1] + 1, (), generator=generator)),
        )
        for i in range(3 * sentences)
    ]
    corpus = Corpus(items, (sentences,) * 3, 0)
    price, weight = (torch.tensor([float(getattr(item, name)) for item in items]) for name in ("price", "weight"))
    table = torch.stack([price / 450, weight / 35, torch.ones_like(price)], 1)
    table += 0.001 * torch.randn(table.shape, generator=generator)
    parts = draw_instances(corpus, num_items, (train, 20, 30))
    truth = Truth(price, weight, 10.0 * num_items)
    return KnapsackData(table, *parts, source="generated, toy", encoder="toy", truth=truth)
