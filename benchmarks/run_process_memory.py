"""Peak memory of whole processes on one CPU device: steps as planned and as PyTorch runs the module, and the plan's.

python benchmarks/run_process_memory.py prints a row per network. Every malloc of the process counts, so that nothing
escapes that a library takes by itself; a C compiler makes the library that counts, which is preloaded. Only glibc.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo_modules import module_of

import placewright
from placewright.execution.pytorch.compare import inference, training_step
from placewright.importers.torch.results import default_loss

INFERENCE = ("nasnet_a_mobile", "densenet121", "bert_tiny", "ddpm_cifar")
TRAINING = ("bert_tiny", "mobilenet_v1", "vae", "ddpm_cifar")
MIB = 2**20
#: Environment variable with the path of the library, in processes whose mallocs are counted.
LIBRARY = "PLACEWRIGHT_MALLOC_COUNTER"
COUNTER = """
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static _Atomic long in_use, most;
static void *taken(void *block) {
    if (!block) return block;
    long size = malloc_usable_size(block), now = atomic_fetch_add(&in_use, size) + size, seen = most;
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {}
    return block;
}
static void given_back(void *block) {
    if (block) atomic_fetch_sub(&in_use, (long)malloc_usable_size(block));
}
void *malloc(size_t size) { return taken(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return taken(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block || !size ? 0 : ENOMEM;
}
void *realloc(void *block, size_t size) {
    given_back(block);
    void *other = __libc_realloc(block, size);
    taken(other || !size ? other : block);
    return other;
}
void free(void *block) {
    given_back(block);
    __libc_free(block);
}
long count_anew(void) { return most = in_use; }
long counted(void) { return most; }
"""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--inference", nargs="*", default=INFERENCE, metavar="NETWORK")
    options.add_argument("--training", nargs="*", default=TRAINING, metavar="NETWORK")
    options.add_argument("--batch", type=int, default=2)
    return options


def counting_environment(folder: Path) -> dict[str, str]:
    """Environment of a process whose mallocs are counted. folder: where the library is built."""
    source, library = folder / "counter.c", folder / "counter.so"
    source.write_text(COUNTER)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return {**os.environ, LIBRARY: str(library), "LD_PRELOAD": str(library)}


def process_peak(call: Callable[[], Any]) -> int:
    """The most bytes that this process, whose mallocs are counted, takes beyond what it has before a call."""
    counter = ctypes.CDLL(os.environ[LIBRARY])
    counter.count_anew.restype = counter.counted.restype = ctypes.c_long
    gc.collect()
    before = int(counter.count_anew())
    call()
    return int(counter.counted()) - before


def row(name: str, training: bool, batch: int) -> str:
    """One network, planned for the least peak on one device; each way is called three times, and the last counts."""
    model, args = module_of(name, batch)
    held: int = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), *args))
    twin = copy.deepcopy(model)
    eager = training_step(twin, args, {}, default_loss) if training else inference(twin, args, {})

    def most(call: Callable[[], Any]) -> int:
        for _ in range(3):
            model.zero_grad()
            taken = process_peak(call)
        return held + taken

    with placewright.compile(model, args, devices="cpu:0", training=training, objective="peak-memory") as compiled:
        planned, measured = max(compiled.plan.peak_bytes), most(lambda: compiled(*args))
    alone = most(eager)
    mode = "training" if training else "inference"
    sizes = f"{planned / MIB:.1f} | {measured / MIB:.1f} | {measured / planned - 1:+.1%}"
    return f"| {name} | {mode} | {batch} | {sizes} | {alone / MIB:.1f} | {measured / alone - 1:+.1%} |"


def main() -> None:
    arguments = parser().parse_args()
    modes = [(name, False) for name in arguments.inference] + [(name, True) for name in arguments.training]
    if LIBRARY in os.environ:
        for name, training in modes:
            print(row(name, training, arguments.batch), flush=True)
        return
    print("| network | step | batch | planned MiB | process | off by | eager, process | ours |")
    print("|---|---|" + "---:|" * 6, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = counting_environment(Path(folder))
        for name, training in modes:
            own = ["--inference", *([] if training else [name]), "--training", *([name] if training else [])]
            call = [sys.executable, __file__, *own, "--batch", str(arguments.batch)]
            subprocess.run(call, check=True, env=environment)


if __name__ == "__main__":
    main()
