"""Policies on disk: read back equal, readable by others, and whatever else a file may hold refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.learning.networks import random_policy
from safetensors.numpy import load_file, save_file

from placewright.methods.policy_file import read_policy, write_policy
from placewright.support.errors import InputError


def test_a_policy_is_read_back_equal(tmp_path: Path) -> None:
    policy = random_policy()
    write_policy(policy, tmp_path / "p.safetensors")
    back = read_policy(tmp_path / "p.safetensors")
    assert (back.name, back.configuration, dict(back.record)) == (policy.name, policy.configuration, {"steps": 0})
    assert all(np.array_equal(back.weights[name], policy.weights[name]) for name in policy.weights)


def test_safetensors_reads_what_is_written_and_the_other_way_round(tmp_path: Path) -> None:
    policy = random_policy()
    write_policy(policy, tmp_path / "ours.safetensors")
    arrays = load_file(tmp_path / "ours.safetensors")
    assert all(np.array_equal(arrays[name], policy.weights[name]) for name in policy.weights)
    header = json.loads(_header(tmp_path / "ours.safetensors"))["__metadata__"]
    save_file(arrays, tmp_path / "theirs.safetensors", header)
    back = read_policy(tmp_path / "theirs.safetensors")
    assert all(np.array_equal(back.weights[name], policy.weights[name]) for name in policy.weights)


def _header(path: Path) -> bytes:
    data = path.read_bytes()
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


def _with_header(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def _about(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(header: dict[str, Any]) -> None:
        about = json.loads(header["__metadata__"]["placewright"])
        change(about)
        header["__metadata__"]["placewright"] = json.dumps(about)

    return lambda data: _with_header(data, changed)


def _entry(change: dict[str, Any]) -> Callable[[bytes], bytes]:
    return lambda data: _with_header(data, lambda header: header["act.out.bias"].update(change))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda data: b"", "ends before its header"),
        (lambda data: data[:100], "ends before its header"),
        (lambda data: data[:-4], "cut short: it ends before"),
        (lambda data: b"\x02" + bytes(7) + b"[]", "no JSON object"),
        (lambda data: b"\x02" + bytes(7) + b"{]", "not a policy"),
        (lambda data: b"\xff" * 100, "ends before its header"),
        (lambda data: _with_header(data, lambda header: header.pop("__metadata__")), "not a policy of placewright"),
        (lambda data: _with_header(data, lambda header: header.pop("act.out.bias")), "see 'act.out.bias'"),
        (
            _about(lambda about: about.update(schema_version=3)),
            "has schema_version 3; this placewright reads version 2",
        ),
        (
            _about(lambda about: about.update(schema_version=1)),
            "`placewright train` makes a file of an earlier version",
        ),
        (_about(lambda about: about.pop("family")), "is not a policy: 'family'"),
        (_about(lambda about: about.pop("name")), "not a policy: 'name'"),
        (_about(lambda about: about.update(name=5)), "a policy whose name is 5"),
        (_about(lambda about: about.update(name="two\nlines")), "a policy whose name is"),
        (_about(lambda about: about.update(record=[])), "whose record is no JSON object"),
        (lambda data: (200_000).to_bytes(8, "little") + b"[" * 200_000, "not a policy"),
        (_about(lambda about: about["configuration"].update(rounds=10**9)), "1000000000 rounds"),
        (_about(lambda about: about["configuration"].update(num_devices=65)), "for 65 devices"),
        (_about(lambda about: about["configuration"].update(rounds=-1)), "-1 rounds"),
        (_about(lambda about: about["configuration"].update(rounds="2")), "configuration's rounds"),
        (_about(lambda about: about["configuration"].update(update="lstm")), "configuration's update"),
        (
            _about(lambda about: about["configuration"].update(colour=1)),
            "'colour', which this placewright does not know",
        ),
        (_about(lambda about: about["configuration"].update(width=4)), "finite float32 numbers"),
        (_entry({"dtype": "F16"}), "'act.out.bias' is not an array of float32"),
        (_entry({"shape": [3]}), "not those of its shape"),
        (_entry({"shape": [-1]}), "'act.out.bias' is not an array of float32"),
        (_entry({"data_offsets": [0, 10**9]}), "cut short: it ends before 'act.out.bias'"),
        (_entry({"data_offsets": 5}), "not a policy"),
    ],
)
def test_what_is_no_policy_is_refused_in_a_sentence_that_names_the_file(
    tmp_path: Path, spoil: Callable[[bytes], bytes], sentence: str
) -> None:
    path = tmp_path / "p.safetensors"
    write_policy(random_policy(), path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=sentence) as refused:
        read_policy(path)
    assert str(path) in str(refused.value)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    policy = random_policy()
    path = tmp_path / "p.safetensors"
    policy.weights["act.out.bias"][1] = np.nan
    write_policy(policy, path)
    with pytest.raises(InputError, match=r"'act.out.bias' is not 14 finite float32 numbers"):
        read_policy(path)
