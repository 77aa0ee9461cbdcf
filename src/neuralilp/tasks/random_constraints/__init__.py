"""Random constraints (Section 4.2): learn the rows of a hidden program from costs and optimal solutions."""
