"""The check that OR-tools is installed."""

from __future__ import annotations

from placewright.support.errors import MissingExtraError


def require_ortools(method: str) -> None:
    """Raise MissingExtraError, naming the extra, where OR-tools is not installed."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("OR-tools", "cp", f"the method '{method}'") from error
