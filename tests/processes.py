"""What tests with child processes share."""

import signal


def heed_interrupts() -> None:
    """Let a child be interrupted though its parent ignores that, as a job in the background does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
