"""Sentences about items: what they say, and in how many ways."""

from __future__ import annotations

import re

import pytest

from neuralilp.errors import InputError
from neuralilp.tasks.knapsack.sentences import PRICES, WEIGHTS, in_words, write_items


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (7, "seven"),
        (15, "fifteen"),
        (20, "twenty"),
        (35, "thirty-five"),
        (99, "ninety-nine"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert in_words(number) == words


@pytest.mark.parametrize("number", [-1, 100])
def test_numbers_that_have_no_words_here(number: int) -> None:
    with pytest.raises(InputError, match=f"number must be from 0 to 99, got {number}"):
        in_words(number)


def test_every_sentence_says_its_weight_and_its_price() -> None:
    items = write_items(3000, seed=1)
    assert len({item.sentence for item in items}) == 3000
    for sentence, weight, price in items:
        numbers = {int(number) for number in re.findall(r"\d+", sentence)}
        said = sentence.lower()
        assert weight in numbers or in_words(weight) in said, sentence
        assert price in numbers, sentence
        assert sentence[0] == sentence[0].upper()
    for low, high, values in ((*WEIGHTS, [item.weight for item in items]), (*PRICES, [item.price for item in items])):
        assert (min(values), max(values)) == (low, high)


def test_no_place_of_a_sentence_gives_the_number_away() -> None:
    """Weight first or price first, in digits or in words, early or late."""
    items = write_items(2000, seed=2)
    digits = [item for item in items if {str(item.weight), str(item.price)} <= set(re.findall(r"\d+", item.sentence))]
    weight_first = sum(item.sentence.index(str(item.weight)) < item.sentence.index(str(item.price)) for item in digits)
    assert 0.3 < weight_first / len(digits) < 0.7
    assert 0.1 < 1 - len(digits) / len(items) < 0.5
    places = {sentence.split().index(word) for sentence, *_ in items for word in sentence.split() if word[-1].isdigit()}
    assert len(places) > 8


def test_the_seed_decides() -> None:
    assert write_items(50, seed=3) == write_items(50, seed=3) != write_items(50, seed=4)
    with pytest.raises(InputError, match="count must be positive, got 0"):
        write_items(0)
