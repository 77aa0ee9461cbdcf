"""Knapsack from sentences (Section 4.3): price and weight of each item are said in words, the capacity is not."""
