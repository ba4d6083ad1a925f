"""Tests of all methods, the laboratory's too."""

from placewright.support.extensions import load_extensions

load_extensions()
