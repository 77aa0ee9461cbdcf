"""Sentences that tell the price and the weight of an item, after ``The Clouded Flail of Hannibal (29 pounds, $299)``.

Reading them must not be a matter of one position: names have one to four words, weight or price comes first, and
numbers are digits, with decimals or without and the unit before or behind, or, of weights, words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from neuralilp.errors import InputError

WEIGHTS, PRICES = (15, 35), (100, 450)
"""Pounds and dollars of the published sentences, both ends included."""


def _words(text: str) -> list[str]:
    return text.split()


ADJECTIVES = _words(
    "Ancient Ashen Blessed Brazen Broken Burning Carved Clouded Cold Crimson Cursed Dented Dusky Elder Enchanted "
    "Faded Forgotten Frozen Gilded Gleaming Golden Grim Hallowed Heavy Hidden Hollow Honed Iron Ivory Jagged "
    "Lacquered Light Lost Lunar Mended Mirrored Molten Mossy Nameless Oaken Obsidian Old Painted Pale Plain Polished "
    "Radiant Royal Rusty Sacred Scarlet Shattered Silent Silver Simple Solar Spiked Stolen Storied Sturdy Tarnished "
    "Tempered Twisted Velvet Verdant Weathered Whispering Wicked Winged Worn"
)
NOUNS = _words(
    "Amulet Anvil Axe Banner Barrel Basket Bell Blade Book Bow Bracelet Brooch Buckler Candelabrum Cape Casket Chain "
    "Chalice Chest Cloak Club Compass Crossbow Crown Cuirass Dagger Drum Flail Flute Gauntlet Goblet Greaves Halberd "
    "Hammer Harness Harp Hatchet Helmet Horn Hourglass Javelin Kettle Lance Lantern Ledger Locket Loom Lute Mace "
    "Mantle Mask Medallion Mirror Mortar Necklace Orb Pike Quiver Quilt Ring Robe Rope Saddle Scepter Scroll Scythe "
    "Shield Sickle Spear Spyglass Staff Statue Sword Tapestry Tome Torch Trident Urn Vase Wand"
)
OWNERS = _words(
    "Achilles Ada Agrippa Ajax Alaric Alcuin Alexander Amina Arminius Artemisia Attila Aurelia Beowulf Boudica "
    "Brunhild Caesar Cassandra Charlemagne Circe Cleopatra Cyrus Darius Diana Dido Eleanor Emeka Enkidu Fatima Freya "
    "Galahad Genghis Gilgamesh Guinevere Hadrian Hannibal Hecate Hector Helena Hypatia Igor Imhotep Isolde Jason Joan "
    "Juno Kassa Lancelot Leif Leonidas Livia Mansa Medea Merlin Minerva Nefertiti Nestor Odysseus Olga Orpheus "
    "Penelope Percival Pompey Ragnar Roland Saladin Salome Samson Scipio Semiramis Siegfried Spartacus Tamerlane "
    "Theodora Thor Tristan Ulysses Wallace Xerxes Yaroslav Zenobia"
)

SMALL = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
TENS = _words("zero ten twenty thirty forty fifty sixty seventy eighty ninety")

NAMES: Sequence[str] = (
    "The {adjective} {noun} of {owner}",
    "The {noun} of {owner}",
    "{owner}'s {adjective} {noun}",
    "{owner}'s {noun}",
    "A {adjective} {noun}",
    "The {adjective} {noun}",
    "One {noun}",
    "{adjective} {noun} that was once {owner}'s",
)
SENTENCES: Sequence[str] = (
    "{name} ({weight}, {price})",
    "{name} ({price}, {weight})",
    "{name}: {weight}, {price}",
    "{name}, {price}, {weight}",
    "{name} weighs {weight} and costs {price}",
    "{name} costs {price} and weighs {weight}",
    "For {price} you get {name}, at {weight}",
    "At {weight}, {name} is yours for {price}",
    "{name}, which sells at {price}, has a weight of {weight}",
    "{weight}, {price}: {name}",
    "{price} is asked for {name} of {weight}",
    "Carry {weight} and earn {price} with {name}",
)


class Item(NamedTuple):
    sentence: str
    weight: int
    price: int


def in_words(number: int) -> str:
    """``29`` is "twenty-nine"; up to 99."""
    if not 0 <= number <= 99:
        raise InputError(f"number must be from 0 to 99, got {number}")
    tens, ones = divmod(number, 10)
    if number < 20:
        return SMALL[number]
    return TENS[tens] + (f"-{SMALL[ones]}" if ones else "")


WEIGHT_FORMS: Sequence[Callable[[int], str]] = (
    lambda w: f"{w} pounds",
    lambda w: f"{w} lb",
    lambda w: f"{w}lbs",
    lambda w: f"{w}.0 pounds",
    lambda w: f"{in_words(w)} pounds",
)
PRICE_FORMS: Sequence[Callable[[int], str]] = (
    lambda p: f"${p}",
    lambda p: f"{p} dollars",
    lambda p: f"${p}.00",
    lambda p: f"USD {p}",
    lambda p: f"{p} USD",
)


def write_item(rng: random.Random) -> Item:
    """An item with a weight and a price of their own, and a sentence in one of the wordings."""
    weight, price = rng.randint(*WEIGHTS), rng.randint(*PRICES)
    name = rng.choice(NAMES).format(adjective=rng.choice(ADJECTIVES), noun=rng.choice(NOUNS), owner=rng.choice(OWNERS))
    template = rng.choice(SENTENCES)
    if not template.startswith("{name}"):
        name = name[0].lower() + name[1:] if name.split()[0] in ("The", "A", "One") else name
    sentence = template.format(name=name, weight=rng.choice(WEIGHT_FORMS)(weight), price=rng.choice(PRICE_FORMS)(price))
    return Item(sentence[0].upper() + sentence[1:], weight, price)


def write_items(count: int, seed: int = 0) -> list[Item]:
    """Items whose sentences are all different."""
    if count < 1:
        raise InputError(f"count must be positive, got {count}")
    rng = random.Random(seed)
    items: dict[str, Item] = {}
    while len(items) < count:
        item = write_item(rng)
        items.setdefault(item.sentence, item)
    return list(items.values())
