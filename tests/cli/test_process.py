"""The command line as a process: exit codes, Ctrl-C, full disks, closed pipes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import chain_graph, limited, process
from waiting import PATIENCE_S, wait_until

from placewright import load
from placewright.importers import save_graph


def test_success_bad_input_and_nothing_feasible_are_0_2_and_3(model: Path, tmp_path: Path) -> None:
    assert process("plan", model, "-d", "2xp100", "--evaluations", "20", "-o", tmp_path / "p.json").returncode == 0
    bad = process("plan", model, "-d", "2xq100")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("placewright: error: unknown device 'q100'")
    assert process("plan", model, "-d", "2xp100", "--memory-limit", "1MiB", "--evaluations", "9").returncode == 3


def test_json_on_stdout_stays_parseable_when_nothing_fits(model: Path) -> None:
    outcome = process("plan", model, "-d", "2xp100", "--memory-limit", "1MiB", "--evaluations", "9", "--json")
    assert json.loads(outcome.stdout)["status"] == "infeasible"


def searching(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    """Start a search that would go on for hours (no bound proves its best plan optimal) and wait until it has begun."""
    arguments = ["plan", "example:inception-v3-train", "-d", "2xp100", "--evaluations", str(10**12)]
    command = [sys.executable, "-m", "placewright", *map(str, arguments), "-o", str(tmp_path / "p.json"), *options]
    environment = {**os.environ, "COLUMNS": ""}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: _cpu_seconds(process.pid) >= 2.5)
    return process


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that the process has used; imports and baselines take some 1.5 of them."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        pytest.skip("this system has no /proc to see when the search has begun")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_writes_the_best_plan_so_far_and_is_130(tmp_path: Path) -> None:
    running = searching(tmp_path)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert err == "placewright: interrupted\n"
    assert "stopped: interrupted, the best plan so far" in out
    plan = load(tmp_path / "p.json")
    assert plan.stopped_because == "interrupted"
    baselines = {each.name: each.metrics.step_time_ns for each in plan.baselines if each.metrics}
    assert plan.metrics.step_time_ns <= min(baselines.values())
    assert plan.metrics.step_time_ns < baselines["input-order"]


def test_ctrl_c_with_json_still_prints_one_object(tmp_path: Path) -> None:
    running = searching(tmp_path, "--json")
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert json.loads(out)["stopped_because"] == "interrupted"


def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_half_written(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "p.json"
    target.write_text("the old one")
    arguments: list[str | Path] = ["plan", model, "-d", "2xp100", "--evaluations", "20", "-o", target]
    outcome = process(*arguments, preexec_fn=limited(4096))
    assert outcome.returncode == 2
    assert f"cannot write '{target}': File too large" in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert target.read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json", "towers.json"]


def test_a_plan_stays_whole_when_the_report_no_longer_fits(model: Path, tmp_path: Path) -> None:
    options: list[str | Path] = ["-o", tmp_path / "p.json", "--report", tmp_path / "r.html"]
    outcome = process("plan", model, "-d", "2xp100", "--evaluations", "20", *options, preexec_fn=limited(40_000))
    assert outcome.returncode == 2
    assert "r.html" in outcome.stderr
    assert f"; written before: plan {tmp_path / 'p.json'}\n" in outcome.stderr
    assert load(tmp_path / "p.json").graph_name == "towers"
    assert not (tmp_path / "r.html").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_before_the_search(model: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    outcome = process("plan", model, "-d", "2xp100", "--evaluations", str(10**9), "-o", tmp_path / "closed" / "p.json")
    assert outcome.returncode == 2
    assert "Permission denied" in outcome.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_standard_output_is_one_sentence(saved: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "placewright", "show", str(saved)]
        outcome = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
        )
    assert outcome.returncode == 2
    assert outcome.stderr == "placewright: error: cannot write to standard output: No space left on device\n"


def test_a_reader_that_goes_away_ends_it_quietly(saved: Path) -> None:
    command = [sys.executable, "-m", "placewright", "show", str(saved)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == ""
    assert running.wait(timeout=PATIENCE_S) != 0


def test_an_ascii_terminal_gets_escapes_instead_of_a_crash(tmp_path: Path) -> None:
    save_graph(chain_graph(3, name="größe"), tmp_path / "g.json")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "placewright", "inspect", str(tmp_path / "g.json")]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert outcome.returncode == 0
    assert "gr\\xf6\\xdfe" in outcome.stdout


def test_help_and_version_need_no_heavy_import() -> None:
    check = (
        "import sys; from placewright import cli; code = cli.run(['--help']); "
        "heavy = {'torch', 'onnx', 'pydantic', 'rich.console'} & set(sys.modules); sys.exit(f'{code} {heavy}')"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert outcome.stderr.strip() == "0 set()"
    assert process("--version").stdout.strip().count(".") == 2


def test_a_closed_standard_output_is_no_crash(saved: Path) -> None:
    command = ["sh", "-c", 'exec "$0" -m placewright show "$1" >&-', sys.executable, str(saved)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.parametrize(
    "module",
    [
        *("typing", "enum", "numpy", "typer", "placewright.support.errors", "placewright.api.functions"),
        *("placewright.cli", "placewright.cli.app"),
    ],
)
def test_ctrl_c_while_anything_is_still_imported_is_one_line_and_130(module: str, tmp_path: Path) -> None:
    # The signal arrives with the first import of the module, however deep in the imports of others that is.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    outcome = process("plan", "example:nothing", "-d", "2xp100", environment={"PYTHONPATH": str(tmp_path)})
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (130, "", "placewright: interrupted\n")


def test_a_program_that_imports_the_package_keeps_its_own_ctrl_c() -> None:
    script = "import signal, placewright; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", script], timeout=PATIENCE_S, check=False).returncode == 0


def test_where_ctrl_c_is_ignored_it_stays_so(model: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    script = "import signal, sys, atexit; sys.argv = ['placewright', '--version']; from placewright import cli; "
    script += "was = signal.getsignal(signal.SIGINT); cli.run(sys.argv[1:]); sys.exit(was is not signal.SIG_IGN)"
    command = [sys.executable, "-c", script]
    assert (
        subprocess.run(command, capture_output=True, preexec_fn=ignore, timeout=PATIENCE_S, check=False).returncode == 0
    )


def test_a_second_ctrl_c_ends_it_with_one_line(tmp_path: Path) -> None:
    running = searching(tmp_path)
    running.send_signal(signal.SIGINT)
    time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert err.strip() == "placewright: interrupted"


def test_a_device_node_or_a_pipe_is_refused_before_the_search(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in ("/dev/null", "/dev/stdout", tmp_path / "pipe"):
        outcome = process("plan", model, "-d", "2xp100", "--evaluations", str(10**9), "-o", target)
        assert outcome.returncode == 2
        assert outcome.stderr == f"placewright: error: cannot write '{target}': it is no regular file\n"
    assert not Path("/dev/null").is_file()


#: A module whose captures are counted; during one of them Ctrl-C is typed.
CAPTURED = """
import os, signal, sys
import torch
from placewright.importers.torch import forward_backward as front

whole, calls = front.traced_pass, []

def counted(*args, **kwargs):
    calls.append(1)
    open(os.environ["CALLS"], "a").write("captured\\n")
    if len(calls) == int(os.environ["INTERRUPTED"]):
        os.kill(os.getpid(), signal.SIGINT)
    return whole(*args, **kwargs)

front.traced_pass = counted

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).pow(2).mean()

def build():
    return Loss(), torch.ones(4, 8)
"""


@pytest.mark.parametrize("capture", [1, 2])
def test_ctrl_c_ends_fit_in_a_capture_and_what_was_found_is_printed(capture: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(CAPTURED)
    environment = {"CALLS": str(tmp_path / "calls"), "INTERRUPTED": str(capture)}
    page = tmp_path / "r.html"
    outcome = process("fit", f"{tmp_path / 'net.py'}:build", "-d", "h100", "--report", page, environment=environment)
    assert (outcome.returncode, outcome.stderr) == (130, "placewright: interrupted\n")
    assert (tmp_path / "calls").read_text().count("captured") == capture
    if capture == 1:
        assert outcome.stdout == ""
        assert not page.exists()
    else:
        assert "that were tried: batch 4, float32, AdamW" in outcome.stdout
        assert page.read_text().rstrip().endswith("</html>")
