"""Files of other people that tests compare with; they are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: Beside the repository, or where the environment says.
FOLDER = Path(os.environ.get("PLACEWRIGHT_REFERENCE_DATA", Path(__file__).parents[2] / "shared" / "data"))

#: Marks what reads a file of the folder: such tests are left out where there is none.
needs_reference_data = pytest.mark.reference_data
