"""Broken arrays against the core under the sanitizers: PLACEWRIGHT_FUZZ_SECONDS of them, 60 unless set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = int(os.environ.get("PLACEWRIGHT_FUZZ_SECONDS", "60"))
ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_no_broken_array_makes_the_core_read_or_write_where_it_may_not() -> None:
    built = sorted((ROOT / "build" / "address").glob("_core*.so"))
    if not built:
        pytest.skip("the core is not built with the address sanitizer: make build/address/built")
    # The sanitizer stands in for what throws in C++'s own library, so both must be there before Python loads the core.
    names = ("libasan.so", "libstdc++.so.6")
    libraries = [subprocess.check_output(["c++", f"-print-file-name={name}"], text=True).strip() for name in names]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(libraries),
        # Python itself leaves much to the end of the process; too large a request is refused, not a defect.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    command = [sys.executable, str(ROOT / "tests" / "fuzz" / "fuzz_core.py"), str(built[0]), str(SECONDS)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS + 300, check=False)
    assert run.returncode == 0, run.stderr[-5000:]
    print(run.stdout)
