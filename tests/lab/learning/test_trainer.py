"""A training from its data to its policy: killed, continued, and what it says of bad input."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab.learning.networks import SMALL
from waiting import PATIENCE_S, wait_until

from placewright.importers.graph_set import SUFFIX, write_graph_set
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.decisions import Decisions
from placewright.lab.learning.protocols import GradientEstimate
from placewright.lab.learning.records import Records
from placewright.lab.learning.regal.trainings import RegalTraining
from placewright.lab.learning.trainer import BEST, TrainingProgress, tasks_of, train
from placewright.lab.learning.workers import Workers
from placewright.methods.policy_file import read_policy
from placewright.support.errors import InputError
from placewright.support.files import locked_folder

CONFIGURATION = RegalTraining(
    policy=SMALL,
    steps=6,
    batch=2,
    samples=2,
    evaluations=420,
    learning_rate=1e-2,
    reference_seeds=1,
    checkpoint_interval=2,
    validation_interval=3,
    validation_graphs=2,
    validation_evaluations=420,
)


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    train(data, CONFIGURATION, out, name="small")
    return out


def lines(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_the_policy_that_was_best_at_a_validation_is_kept(undisturbed: Path) -> None:
    policy = read_policy(undisturbed / BEST)
    validations = {line["step"]: line["improvement"] for line in lines(undisturbed) if "improvement" in line}
    assert list(validations) == [3, 6]
    assert policy.record["improvement_percent"] == max(validations.values())
    assert policy.record["step"] == max(validations, key=lambda step: validations[step])
    assert policy.record["training"]["learning_rate"] == 1e-2
    assert (policy.name, policy.configuration) == ("small", SMALL)


def test_records_have_a_line_for_every_checkpoint_and_validation(undisturbed: Path) -> None:
    assert [line["step"] for line in lines(undisturbed)] == [2, 3, 4, 6, 6]
    assert all(-1.5 < line["reward"] < -0.5 for line in lines(undisturbed) if "reward" in line)
    assert list((undisturbed / "tensorboard").glob("events*"))


KILLED = """
import os, sys
from pathlib import Path
from test_trainer import CONFIGURATION
from placewright.lab.learning import trainer

def die(progress):
    if progress.step == 4:
        os.kill(os.getpid(), 9)

if __name__ == "__main__":
    trainer.train(Path(sys.argv[1]), CONFIGURATION, Path(sys.argv[2]), name="small", processes=2, on_progress=die)
"""


def run_and_kill(data: Path, out: Path, script: Path) -> None:
    """Run a training that kills itself at step 4; the environment of all its processes names the folder."""
    script.write_text(KILLED)
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here.parents[1]}{os.pathsep}{here}", "KILLED_TRAINING": str(out)}
    ended = subprocess.run([sys.executable, script, data, out], env=environment, timeout=PATIENCE_S, check=False)
    assert ended.returncode == -signal.SIGKILL


def processes_of(out: Path) -> list[int]:
    """Return the ids of the processes of a training that `run_and_kill` started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if f"KILLED_TRAINING={out}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def test_a_training_that_was_killed_goes_on_to_the_same_weights(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_and_kill(data, out, tmp_path / "killed.py")
    assert lines(out)[-1]["step"] == 4
    train(data, CONFIGURATION, out, name="small")
    assert (out / BEST).read_bytes() == (undisturbed / BEST).read_bytes()
    assert lines(out) == lines(undisturbed)


def test_workers_end_with_the_training_that_started_them(data: Path, tmp_path: Path) -> None:
    run_and_kill(data, tmp_path / "out", tmp_path / "killed.py")
    wait_until(lambda: not processes_of(tmp_path / "out"))


def test_another_training_s_folder_is_refused(data: Path, undisturbed: Path) -> None:
    with pytest.raises(InputError, match=r"checkpoint.pt' is of a training with another learning_rate: 0.01, not 0.02"):
        train(data, replace(CONFIGURATION, learning_rate=2e-2), undisturbed, name="small")
    with pytest.raises(InputError, match="another seed: 0, not 1"):
        train(data, CONFIGURATION, undisturbed, name="small", seed=1)


def test_a_training_that_has_ended_goes_further_when_told_more_steps(
    data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    train(data, replace(CONFIGURATION, steps=4), tmp_path, name="small")
    train(data, CONFIGURATION, tmp_path, name="small")
    assert lines(tmp_path) == lines(undisturbed)
    further, whole = read_policy(tmp_path / BEST), read_policy(undisturbed / BEST)
    assert all(np.array_equal(further.weights[name], whole.weights[name]) for name in whole.weights)


def test_a_training_too_short_for_a_validation_is_validated_at_its_end(data: Path, tmp_path: Path) -> None:
    path = train(data, replace(CONFIGURATION, steps=1), tmp_path, name="small")
    assert read_policy(path).record["step"] == 1


#: The columns that every training by gradients records.
LOOKED_AT = {"step", "entropy", "variation", "state_rms", "logit_rms", "gradient_norm"}


def test_steps_that_imitate_go_on_from_a_checkpoint_too(data: Path, tmp_path: Path) -> None:
    # The last step that imitates is the third; checkpoints lie before and after it.
    imitating = replace(CONFIGURATION, policy=replace(SMALL, with_affinities=True), imitation_steps=3)
    train(data, imitating, tmp_path / "whole", name="small")
    train(data, replace(imitating, steps=4), tmp_path / "parts", name="small")
    train(data, imitating, tmp_path / "parts", name="small")
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    keys = [set(line) for line in lines(tmp_path / "whole") if "entropy" in line]
    assert keys == [{*LOOKED_AT, "imitation_loss"}, {*LOOKED_AT, "imitation_loss", "reward"}, {*LOOKED_AT, "reward"}]


def test_a_policy_that_is_gone_is_made_again(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    (out / BEST).unlink()
    assert read_policy(train(data, CONFIGURATION, out, name="small")).record["step"] == 6


def test_other_data_is_refused(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    write_graph_set(tmp_path / "data" / f"valid{SUFFIX}", [random_graph(1, 0), random_graph(1, 1)], {})
    with pytest.raises(InputError, match="another data"):
        train(tmp_path / "data", CONFIGURATION, undisturbed, name="small")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda good: b"",
        lambda good: b"not a checkpoint",
        lambda good: good[:-30],
        lambda good: good[: len(good) // 2],
        lambda good: good[:5000] + bytes([good[5000] ^ 1]) + good[5001:],
    ],
)
def test_a_spoiled_checkpoint_is_named(
    data: Path, undisturbed: Path, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(spoil((undisturbed / "checkpoint.pt").read_bytes()))
    with pytest.raises(InputError, match=r"checkpoint.pt' is not a checkpoint, or damaged: delete it"):
        train(data, CONFIGURATION, tmp_path, name="small")


class _Code:
    """An object that makes a file when pickle loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("as_torch_saves", [True, False])
def test_a_checkpoint_of_someone_else_runs_no_code(data: Path, tmp_path: Path, as_torch_saves: bool) -> None:
    ran = tmp_path / "code ran"
    content = io.BytesIO()
    if as_torch_saves:
        torch.save({"settings": _Code(ran), "weights": _Code(ran)}, content)
    else:
        pickle.dump(_Code(ran), content)
    (tmp_path / "out").mkdir()
    digest = hashlib.sha256(content.getvalue()).digest()
    (tmp_path / "out" / "checkpoint.pt").write_bytes(digest + content.getvalue())
    with pytest.raises(InputError, match=r"checkpoint.pt' is not a checkpoint, or damaged: delete it"):
        train(data, CONFIGURATION, tmp_path / "out", name="small")
    assert not ran.exists()
    pickle.loads(pickle.dumps(_Code(ran)))  # it would have
    assert ran.exists()


@pytest.mark.parametrize("state", [{}, [], {"settings": None}, {"settings": {"seed": []}}])
def test_a_checkpoint_of_something_else_is_named(data: Path, tmp_path: Path, state: object) -> None:
    content = io.BytesIO()
    torch.save(state, content)
    (tmp_path / "checkpoint.pt").write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    with pytest.raises(InputError, match=r"checkpoint.pt' is (not a checkpoint|of a training with another)"):
        train(data, CONFIGURATION, tmp_path, name="small")


def test_a_folder_that_a_training_writes_to_is_refused_to_others(data: Path, tmp_path: Path) -> None:
    with locked_folder(tmp_path, "test holds"), pytest.raises(InputError, match="another training writes to"):
        train(data, CONFIGURATION, tmp_path, name="small")


def test_records_that_a_full_disk_does_not_take_are_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match=r"cannot (read|write) '.*metrics.jsonl': Is a directory"):
        Records(tmp_path, 0)
    (tmp_path / "metrics.jsonl").rmdir()
    with Records(tmp_path, 0) as records, open("/dev/full", "a", encoding="utf-8") as full:
        records._file.close()
        records._file = full
        with pytest.raises(InputError, match=r"cannot write '.*metrics.jsonl': No space left"):
            records.add(1, {"reward": 1.0})


def test_a_folder_without_graphs_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no 'train.graphs.gz' to learn from"):
        train(tmp_path, CONFIGURATION, tmp_path / "out", name="small")
    (tmp_path / f"train{SUFFIX}").write_bytes((data / f"train{SUFFIX}").read_bytes())
    with pytest.raises(InputError, match=r"has no 'valid.graphs.gz' to validate on"):
        train(tmp_path, CONFIGURATION, tmp_path / "out", name="small")
    write_graph_set(tmp_path / f"valid{SUFFIX}", [], {})
    with pytest.raises(InputError, match=r"valid.graphs.gz' holds no graph"):
        train(tmp_path, CONFIGURATION, tmp_path / "out", name="small")


def test_gradients_that_are_no_numbers_end_the_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(self: Workers, weights: np.ndarray, tasks: object) -> list[GradientEstimate]:
        gradient = np.full_like(weights, np.nan)
        return [GradientEstimate(gradient=gradient, loss=0.0, rewards=(-1.0,), expected_reward=0.0, decisions=None)]

    monkeypatch.setattr(Workers, "gradients", spoiled)
    with pytest.raises(InputError, match=r"gradients that are no numbers at step 1; a learning rate of 0\.01"):
        train(data, CONFIGURATION, tmp_path / "out", name="small")


def test_a_training_that_cannot_learn_stops_and_says_so_again_when_it_is_asked_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All ops are decided alike from the third line of the records on; three such lines in a row are enough."""
    seen = list[int]()

    def collapsed(self: Workers, weights: np.ndarray, tasks: object) -> list[GradientEstimate]:
        seen.append(len(seen))
        decided = Decisions(entropy=4.0, variation=0.2) if len(seen) <= 2 else Decisions(entropy=0.1, variation=0.01)
        estimate = GradientEstimate(
            gradient=np.ones_like(weights), loss=0.0, rewards=(-1.0,), expected_reward=None, decisions=decided
        )
        return [estimate] * CONFIGURATION.batch

    monkeypatch.setattr(Workers, "gradients", collapsed)
    configuration = replace(CONFIGURATION, steps=20, checkpoint_interval=1, validation_interval=1)
    told = list[TrainingProgress]()
    train(data, configuration, tmp_path, name="small", on_progress=told.append)
    assert [progress.step for progress in told] == [1, 2, 3, 4, 5]
    reason = "it decides alike for every op: their decisions differ by 0.01 of 1"
    assert [progress.stopped for progress in told] == [None] * 4 + [reason]
    policy = read_policy(tmp_path / BEST)
    assert policy.record["learned"]["stopped"] == reason
    # The variation is that of the policy that is kept, which may be one from before.
    assert policy.record["learned"]["variation"] == (0.2 if policy.record["step"] <= 2 else 0.01)
    told.clear()
    train(data, configuration, tmp_path, name="small", on_progress=told.append)
    assert [(progress.step, progress.stopped) for progress in told] == [(5, reason)]
    assert len(seen) == 5


def test_what_a_step_learns_from_depends_on_the_seed_and_the_step_alone() -> None:
    first = tasks_of(CONFIGURATION, 0, 5, range(100))
    assert first == tasks_of(CONFIGURATION, 0, 5, range(100))
    assert first != tasks_of(CONFIGURATION, 0, 6, range(100))
    assert first != tasks_of(CONFIGURATION, 1, 5, range(100))
    assert [len(task.seeds) for task in first] == [2, 2]
