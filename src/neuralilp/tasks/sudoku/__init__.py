"""Sudoku, symbolic and visual (Section 4.1): learn the rules of the game from puzzles and their solutions."""
