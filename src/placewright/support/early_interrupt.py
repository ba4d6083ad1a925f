"""Ctrl-C while the command line is still being imported is one line and exit code 130, as it is later. Importing this
module sees to it, so it comes before all else; `cli.main` takes over. It imports what the interpreter has at its start,
and nothing that takes time: until it is there, Ctrl-C is a traceback."""

import _signal  # type: ignore[import-not-found]  # `signal` imports enum
import os
import sys


def _is_command() -> bool:
    """Whether this process is the command line, and no program that imports the package."""
    if sys.argv[:1] == ["-m"]:  # until python -m has found what to run
        return "placewright" in sys.orig_argv
    return bool(sys.argv) and os.path.basename(sys.argv[0]).removesuffix(".exe") == "placewright"


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, b"placewright: interrupted\n")
    finally:  # also where standard error is closed
        os._exit(128 + number)


# Where it is ignored, as under nohup, it stays so.
if _is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end)
