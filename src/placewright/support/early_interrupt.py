"""Ctrl-C during the imports of the command line prints one line and ends with exit code 130, as it does later.
Importing this module installs the handler, so it must be imported first; `cli.main` takes over. It imports only modules
that the interpreter has already loaded, to take no time: until the handler is installed, Ctrl-C prints a traceback."""

import _signal  # type: ignore[import-not-found]  # `signal` imports enum
import os
import sys


def _is_command() -> bool:
    """True if this process is the command line, not a program that imports the package."""
    if sys.argv[:1] == ["-m"]:  # until python -m has found what to run
        return "placewright" in sys.orig_argv
    return bool(sys.argv) and os.path.basename(sys.argv[0]).removesuffix(".exe") == "placewright"


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, b"placewright: interrupted\n")
    finally:  # also where standard error is closed
        os._exit(128 + number)


# Where the signal is ignored, as under nohup, it stays ignored.
if _is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end)
