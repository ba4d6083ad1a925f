"""Distributions: the sdist builds the wheel, and the wheel plans in an environment that holds nothing else."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from placewright.version import VERSION

ROOT = Path(__file__).parent.parent
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = DECLARED["project"]


class Distribution(NamedTuple):
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def distribution() -> Distribution:
    """The sdist, and the wheel that was built from it alone. They stay in build/dist."""
    folder = ROOT / "build" / "dist"
    for old in folder.glob("placewright-*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Distribution(sdist, wheel)


@pytest.fixture(scope="module")
def scripts(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of scripts of an environment with the wheel and what it depends on."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run([place / "bin" / "pip", "install", "-q", distribution.wheel], check=True)
    return place / "bin"


def test_the_changelog_and_the_citation_are_of_this_version() -> None:
    newest = re.search(r"^## \[(\d.*)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (.+)\ndate-released: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert newest is not None
    assert cited is not None
    assert newest.groups() == cited.groups()
    assert newest[1] == VERSION


def requirements(extra: str) -> dict[str, Requirement]:
    found = [Requirement(text) for text in PROJECT["optional-dependencies"][extra]]
    return {one.name: one for one in found if one.name != "placewright"}


def test_users_get_ranges_and_developers_pins_within_them() -> None:
    pins = requirements("dev")
    assert [name for name, one in pins.items() if not re.fullmatch(r"==[\d.]+", str(one.specifier))] == []
    for extra in set(PROJECT["optional-dependencies"]) - {"dev", "docs"}:
        for name, wanted in requirements(extra).items():
            assert "==" not in str(wanted.specifier), f"{extra}: {wanted}"
            (pin,) = pins[name].specifier
            assert wanted.specifier.contains(pin.version), f"{extra}: {wanted}, tested with {pin}"


@pytest.mark.long
def test_the_wheel_plans_in_an_empty_environment(scripts: Path, tmp_path: Path) -> None:
    found = subprocess.run([scripts / "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True)
    assert not {"torch", "onnx", "ortools", "matplotlib"} & {line.split("==")[0] for line in found.stdout.split()}
    asked = DECLARED["tool"]["cibuildwheel"]["test-command"] + " -o plan.json --report report.html --json"
    program, *arguments = asked.split()
    planned = subprocess.run([scripts / program, *arguments], cwd=tmp_path, check=True, capture_output=True)
    summary = json.loads(planned.stdout)
    assert summary["status"] in ("optimal", "feasible")
    assert summary["gain"] > 0
    assert (tmp_path / "report.html").stat().st_size > 100_000
    check = "check example:inception-v3 plan.json"
    subprocess.run([scripts / "placewright", *check.split()], cwd=tmp_path, check=True)


@pytest.mark.long
def test_a_model_whose_extra_is_absent_names_it(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07")
    asked: list[str | Path] = [scripts / "placewright", "inspect", "model.onnx", "--devices", "2xp100"]
    refused = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "pip install 'path/to/placewright[onnx]'" in " ".join(refused.stderr.split())


@pytest.mark.long
def test_the_wheel_holds_the_package_alone(distribution: Distribution) -> None:
    with zipfile.ZipFile(distribution.wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    in_source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "placewright").rglob("*")}
    (core,) = set(names) - in_source
    assert core.startswith("placewright/_core.")
    assert core.endswith(".so")
    assert {"placewright/py.typed", "placewright/_core.pyi", "placewright/machines/presets.toml"} <= set(names)
    assert distribution.wheel.stat().st_size < 3_000_000


@pytest.mark.long
def test_the_sdist_leaves_measurements_behind(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as archive:
        folders = {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) > 2}
    assert folders == {"cpp", "docs", "examples", "src"}
    assert distribution.sdist.stat().st_size < 3_000_000


@pytest.mark.long
def test_the_metadata_says_whose_it_is_and_what_it_needs(distribution: Distribution) -> None:
    with zipfile.ZipFile(distribution.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    assert metadata["Version"] == VERSION
    assert metadata["Author"] == "The placewright developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Project-URL") is None
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    always = {Requirement(text).name for text in metadata.get_all("Requires-Dist", []) if "extra" not in text}
    assert always == {"numpy", "typer", "rich", "pydantic"}
