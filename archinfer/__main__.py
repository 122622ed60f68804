"""The command `archinfer` and `python -m archinfer`.

What Ctrl-C does is settled before anything else is imported: it ends the command with exit code
130 and no words, at whatever import or computation it comes.
"""

import gc
import signal
import sys
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT

COLLECT = 100_000
"""New objects between two searches for cycles, which Python makes after 700: loading modules makes
many objects and no rubbish, and the searches took a tenth of the time of `archinfer solve`."""


def _stop(_: int, __: FrameType | None) -> None:
    sys.exit(INTERRUPTED)


def run() -> None:
    """Run the command line."""
    # A shell that started the command in the background has it ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop)
    gc.set_threshold(COLLECT)
    from archinfer.cli.main import main

    main()


if __name__ == "__main__":
    run()
