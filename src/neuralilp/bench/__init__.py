"""Side-by-side timings: two ways to do one thing in one process, so that the ratio means something."""
