"""The command line. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

from placewright.cli.exit_codes import BAD_INPUT, INTERRUPTED, complain
from placewright.support.errors import PlacewrightError


def main() -> None:
    """Run the command in sys.argv and end the process with its exit code."""
    try:
        if callable(signal.getsignal(signal.SIGINT)):  # the handler for the time of imports (early_interrupt.py)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = _run_on_streams()
        # The rest, such as joining threads, is short, and a traceback of it would help nobody.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("placewright: interrupted", file=sys.stderr)
        code = INTERRUPTED
    if code != 0:
        _flush_or_discard()
    if code == INTERRUPTED:
        # An interrupt that came while a dataclass was being made would, though handled, end the interpreter by signal.
        os._exit(code)
    sys.exit(code)


def _run_on_streams() -> int:
    # A stream is None where the process was started with it closed.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        # Names from foreign files may hold what the terminal's encoding lacks.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return run(sys.argv[1:])


def run(arguments: Sequence[str]) -> int:
    """Return the exit code of one command. Errors in the user's input become one sentence on stderr and code 2."""
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    # Typer silently turns an interrupt within a command into an exit with this code.
    if code == INTERRUPTED:
        print("placewright: interrupted", file=sys.stderr)
    return code


def _run(arguments: Sequence[str]) -> int:
    from typer import Abort, TyperException

    from placewright.cli.app import app_for
    from placewright.cli.printing import be_quiet
    from placewright.cli.warnings import shown_warnings

    be_quiet(False)
    try:
        with shown_warnings():
            app = app_for(arguments)
            return int(app(list(arguments) or ["--help"], prog_name="placewright", standalone_mode=False) or 0)
    except PlacewrightError as error:
        complain(str(error))
    except TyperException as error:
        complain(error.format_message())
    except Abort as error:
        raise KeyboardInterrupt from error
    except OSError as error:
        # An error about a file names the file, and is reported by the code that opened it.
        if error.filename is not None:
            raise
        complain(f"cannot write to standard output: {error.strerror}")
    return BAD_INPUT


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _flush_or_discard() -> None:
    """Discard output that stdout cannot take, so that the interpreter does not fail on it once more at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
