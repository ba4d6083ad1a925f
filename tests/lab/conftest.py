"""Tests of all methods, the laboratory's too."""

from placewright.support.modules import load_extensions

load_extensions()
