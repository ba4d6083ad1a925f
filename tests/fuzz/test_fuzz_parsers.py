"""Runs the coverage-guided fuzzer for a while: PLACEWRIGHT_FUZZ_SECONDS per format, 60 unless set."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SECONDS = int(os.environ.get("PLACEWRIGHT_FUZZ_SECONDS", "60"))


@pytest.mark.long
@pytest.mark.parametrize("file_format", ["json", "costgraph", "stg", "onnx", "hlo", "stablehlo"])
def test_no_input_the_fuzzer_finds_breaks_the_parser(file_format: Any, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="the fuzzer is not installed")
    script = Path(__file__).parent / "fuzz_parsers.py"
    command = [sys.executable, str(script), file_format, str(SECONDS), str(tmp_path / "corpus")]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
