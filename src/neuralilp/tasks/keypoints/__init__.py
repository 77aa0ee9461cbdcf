"""Keypoint matching (Section 4.4): which point of one picture is which point of another, of the same kind of thing."""
