"""The version; the package's metadata is read from here."""

VERSION = "0.2.0"
