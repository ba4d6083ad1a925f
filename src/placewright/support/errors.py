"""The exceptions that placewright raises on purpose, and suggestions for misspelt names.

The command line turns each exception into one sentence and an exit code.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def shown(text: object, max_length: int = 120) -> str:
    """A name or value from a file as an error quotes it, so that a sentence stays one.

    Parameters
    ----------
    text
        The name or value; a huge number is replaced by its size.
    max_length
        The approximate number of characters to which it is cut.
    """
    if isinstance(text, int) and text.bit_length() > 400:
        return f"a number of {text.bit_length():,} bits"
    whole = str(text)
    return whole if len(whole) <= max_length else f"{whole[: max_length - 20]}... ({len(whole):,} characters)"


def other_version(found: object, known: int, anew: str = "") -> str:
    """Say why a file of another `schema_version` is not read. anew: the command that remakes the file."""
    why = f"has schema_version {shown(found)}; this placewright reads version {known}"
    return f"{why}, and `{anew}` makes a file of an earlier version anew" if anew else why


def parser_message(error: Exception) -> str:
    """Rephrase an error of one of Python's own parsers for the file's author."""
    if "int_max_str_digits" in str(error):
        return "it holds a whole number of thousands of digits"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return shown(error)


def printable(text: str) -> str:
    """Put the text on one line, without control characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class PlacewrightError(Exception):
    """Base of every error that is the input's fault rather than a defect. The command line ends with code 2.

    Parameters
    ----------
    sentence
        The message; names in it may be from foreign files, so it is made `printable`.
    """

    def __init__(self, sentence: object) -> None:
        super().__init__(printable(str(sentence)))


class InputError(PlacewrightError):
    """A file, graph, machine or argument is unusable. The message is one sentence that names the file and the thing."""


class DeviceError(PlacewrightError, RuntimeError):
    """A device that runs a plan failed or ran out of memory. The message names it and, where it is known, the op."""


class MissingExtraError(PlacewrightError):
    """An optional dependency is needed and absent. The message names the extra to install.

    Parameters
    ----------
    package
        The absent package.
    extra
        The extra of placewright that installs it.
    purpose
        The purpose for which it is needed.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'path/to/placewright[{extra}]'")


def did_you_mean(name: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """End a sentence: "; did you mean X?" for the nearest known name, else the names `listed`, or all."""
    names = list(dict.fromkeys(known))
    nearest = difflib.get_close_matches(name[:200].lower(), names, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]}?" if nearest else f"; known are {', '.join(listed or names)}"
