"""Cases of Python state that changes between two calls of a module, each a small file as a user would write it.

A case has a class `Net`, and a change that is made after the first call of an instance. What forward gives in the
second call is another result then, so that one who keeps the old result is found out. Values are 2.0 before and 3.0
after wherever that will do: a change that names 3.0 is undone by the same code with 2.0. Cases whose name begins with
`inside/` change state in forward itself: there `probe` says what the state is after each call.

Every case wants a process of its own: many change globals, classes of PyTorch, or the environment.
"""

# Cases are text that is written to files and imported, so that their code has a file, a module and globals.

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

PREAMBLE = """
import abc, array, builtins, collections, configparser, contextlib, contextvars, copy, ctypes, dataclasses, datetime
import decimal, enum, fractions, functools, gc, importlib, inspect, io, itertools, json, logging, math, operator, os
import pathlib, queue, random, re, sqlite3, string, sys, threading, time, types, typing, warnings, weakref
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
"""
DEFAULTS = {
    **dict.fromkeys(("file", "top", "init", "other"), ""),
    "bases": "nn.Module",
    "probe": "None",
    "args": "(torch.arange(12.0).reshape(3, 4) / 7,)",
}
BOX = """
class Box:
    def __init__(self, v=2.0):
        self.v = v
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The parts of a file. file: before the class. top: in the class. init: in `__init__`. body: of forward. probe: an
    expression, what else to compare after a call. other: the text of a module `neighbour` that the file can import.
    """

    name: str
    file: str
    bases: str
    top: str
    init: str
    body: str
    change: str
    undo: str | None
    probe: str
    other: str
    args: str

    @property
    def is_inside(self) -> bool:
        return self.name.startswith("inside/")


@dataclass(frozen=True, kw_only=True)
class Built:
    """An instance of a case. undo: None where the change is not undone."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    change: Callable[[], None]
    undo: Callable[[], None] | None
    probe: Callable[[], Any]


CASES: dict[str, Case] = {}


def add(name: str, change: str = "", **parts: str) -> None:
    """Add a case. read: an expression that forward multiplies with, where there is no `body`."""
    assert name not in CASES, name
    undo = parts.get("undo", change.replace("3.0", "2.0") if "3.0" in change else "") or None
    body = parts.get("body") or f"return x * self.w * ({parts['read']})"
    others = {part: parts.get(part, default) for part, default in DEFAULTS.items()}
    CASES[name] = Case(name=name, body=body, change=change or "pass", undo=undo, **others)


def source_of(case: Case) -> str:
    def indented(text: str, by: int) -> str:
        return textwrap.indent(text.strip("\n"), " " * by)

    parameters = "*args" if "args" in case.body else "x"
    return "\n".join(
        [
            PREAMBLE,
            "import neighbour" if case.other else "",
            BOX,
            case.file,
            f"class Net({case.bases}):",
            indented(case.top, 4),
            "    def __init__(self):",
            "        super().__init__()",
            "        self.w = nn.Parameter(torch.linspace(-1.0, 1.0, 4))",
            indented(case.init, 8),
            f"    def forward(self, {parameters}):",
            indented(case.body, 8),
            "def change(net):",
            indented(case.change, 4),
            "def undo(net):",
            indented(case.undo or "pass", 4),
            f"def probe(net):\n    return {case.probe}",
            f"def arguments():\n    return {case.args}",
            "",
        ]
    )


def build(name: str) -> Built:
    """Write a case to files, import them, and make an instance."""
    case = CASES[name]
    folder = Path(tempfile.mkdtemp())
    sys.dont_write_bytecode = True  # a file that is written again within a second would be read from the old bytecode
    sys.path.insert(0, str(folder))
    if case.other:
        (folder / "neighbour.py").write_text(case.other)
    (folder / "users_file.py").write_text(source_of(case))
    module = importlib.import_module("users_file")
    torch.manual_seed(0)
    net = module.Net()
    return Built(
        module=net,
        args=module.arguments(),
        change=lambda: module.change(net),
        undo=None if case.undo is None else lambda: module.undo(net),
        probe=lambda: module.probe(net),
    )


# ---------------------------------------------------------------------------------------------- special methods
# Name, parameters, what is returned of self.k, and the expression that calls it.
SPECIAL = (
    ("call", "self, a", "self.k + a", "self.thing(1.0)"),
    ("getitem", "self, i", "self.k + i", "self.thing[1]"),
    ("len", "self", "int(self.k)", "len(self.thing)"),
    ("bool", "self", "self.k > 2.5", "1.0 if self.thing else 5.0"),
    ("contains", "self, item", "item < self.k", "1.0 if 2.5 in self.thing else 5.0"),
    ("iter", "self", "iter([self.k, 1.0])", "sum(self.thing)"),
    ("next", "self", "self.k", "next(self.thing)"),
    ("add", "self, o", "self.k + o", "self.thing + 1.0"),
    ("mul", "self, o", "self.k * o", "self.thing * x"),
    ("matmul", "self, o", "self.k * o", "self.thing @ x"),
    ("truediv", "self, o", "self.k / o", "self.thing / 4.0"),
    ("rxor", "self, o", "self.k * o", "4 ^ self.thing"),
    ("neg", "self", "-self.k", "-self.thing"),
    ("abs", "self", "self.k", "abs(self.thing)"),
    ("round", "self, n=None", "self.k", "round(self.thing)"),
    ("index", "self", "int(self.k)", "[0.5, 1.0, 2.0, 4.0, 8.0][self.thing]"),
    ("float", "self", "float(self.k)", "float(self.thing)"),
    ("eq", "self, o", "self.k == o", "1.0 if self.thing == 2.0 else 5.0"),
    ("lt", "self, o", "self.k < o", "1.0 if self.thing < 2.5 else 5.0"),
    ("hash", "self", "int(self.k)", "hash(self.thing)"),
    ("str", "self", "str(self.k)", "float(str(self.thing))"),
    ("format", "self, spec", "str(self.k)", "float(f'{self.thing:x}')"),
    ("fspath", "self", "'a' * int(self.k)", "len(os.fspath(self.thing))"),
    ("dir", "self", "['a'] * int(self.k)", "len(dir(self.thing))"),
    ("copy", "self", "self.k", "copy.copy(self.thing)"),
    ("enter", "self", "self.k", "contextlib.ExitStack().enter_context(self.thing)"),
    ("getattr", "self, name", "self.__dict__['k'] + len(name)", "self.thing.missing"),
    ("getattribute", "self, name", "object.__getattribute__(self, 'k')", "self.thing.missing"),
    ("array", "self, dtype=None, copy=None", "np.asarray(self.k)", "float(np.asarray(self.thing))"),
    ("instancecheck", "self, o", "self.k > 2.5", "1.0 if isinstance(x, self.thing) else 5.0"),
)


def add_special_methods() -> None:
    """Add cases of each method: with other state, another method in its class, and another class of the object."""
    for name, parameters, result, read in SPECIAL:
        more = result.replace("self.k", "(self.k + 1)").replace("['k']", "['k'] + 1").replace("'k')", "'k') + 1")
        file = f"""
        class Thing:
            def __init__(self):
                self.k = 2.0
            def __{name}__({parameters}):
                return {result}
            def __exit__(self, *error):
                pass
        class Other(Thing):
            def __{name}__({parameters}):
                return {more}
        FIRST, SECOND = Thing.__{name}__, Other.__{name}__
        """
        init, own = "self.thing = Thing()", "net.__dict__['thing']"
        same = {"init": init, "read": read, "file": textwrap.dedent(file)}
        add(f"special/{name}/state", "net.thing.k = 3.0", **same)
        add(f"special/{name}/method", f"Thing.__{name}__ = SECOND", undo=f"Thing.__{name}__ = FIRST", **same)
        change, undo = (f"object.__setattr__({own}, '__class__', {kind})" for kind in ("Other", "Thing"))
        add(f"special/{name}/class", change, undo=undo, **same)


# -------------------------------------------------------------------------------------------- where a value is held
# Name, file, __init__, the expression that reads it, and the code that replaces it. OLD and NEW are values.
GIVE = "def give(v):\n    return v\n"
CLOSURE = """
def make(v):
    def get():
        return v
    def put(new):
        nonlocal v
        v = new
    return get, put
"""
PROPERTY = """
class Has:
    v = property(lambda self: self._v)
    def __init__(self, v):
        self._v = v
"""
HOLDERS = (
    ("attribute", "", "self.v = OLD", "self.v", "net.v = NEW"),
    ("list", "", "self.a = [0, OLD]", "self.a[1]", "net.a[1] = NEW"),
    ("tuple_replaced", "", "self.a = (0, OLD)", "self.a[1]", "net.a = (0, NEW)"),
    ("dict", "", "self.a = dict(v=OLD)", "self.a['v']", "net.a['v'] = NEW"),
    ("dict_in_list", "", "self.a = [dict(v=OLD)]", "self.a[0]['v']", "net.a[0]['v'] = NEW"),
    ("list_in_tuple", "", "self.a = ([OLD],)", "self.a[0][0]", "net.a[0][0] = NEW"),
    ("object", "", "self.o = Box(OLD)", "self.o.v", "net.o.v = NEW"),
    ("object_in_list_in_dict", "", "self.a = dict(l=[Box(OLD)])", "self.a['l'][0].v", "net.a['l'][0].v = NEW"),
    (
        "eight_deep",
        "",
        "self.a = [[[[[[[[OLD]]]]]]]]",
        "self.a[0][0][0][0][0][0][0][0]",
        "net.a[0][0][0][0][0][0][0][0] = NEW",
    ),
    (
        "ten_objects",
        "",
        "b = OLD\nfor _ in range(10):\n    b = Box(b)\nself.b = b",
        "self.b" + ".v" * 10,
        "net.b" + ".v" * 10 + " = NEW",
    ),
    ("alias", "SHARED = [OLD]", "self.a = dict(s=SHARED)", "self.a['s'][0]", "SHARED[0] = NEW"),
    ("cycle", "", "self.o = Box(Box(OLD))\nself.o.v.up = self.o", "self.o.v.up.v.up.v.v", "net.o.v.v = NEW"),
    ("global", "V = OLD", "", "V", "global V; V = NEW"),
    ("global_dict", "V = dict(v=OLD)", "", "V['v']", "V['v'] = NEW"),
    ("globals_call", "V = OLD", "", "globals()['V']", "global V; V = NEW"),
    ("global_of_function", "V = OLD\ndef get():\n    return V", "", "get()", "global V; V = NEW"),
    ("class_attribute", "class Kind:\n    v = OLD", "", "Kind.v", "Kind.v = NEW"),
    ("class_of_object", "class Kind:\n    v = OLD", "self.o = Kind()", "self.o.v", "Kind.v = NEW"),
    ("closure", CLOSURE, "self.get, self.put = make(OLD)", "self.get()", "net.put(NEW)"),
    ("cell", CLOSURE, "self.get, self.put = make(OLD)", "self.get()", "net.get.__closure__[0].cell_contents = NEW"),
    ("default", "def give(v=OLD):\n    return v", "", "give()", "give.__defaults__ = (NEW,)"),
    ("kwdefault", "def give(*, v=OLD):\n    return v", "", "give()", "give.__kwdefaults__['v'] = NEW"),
    ("function_attribute", "def give():\n    return give.v\ngive.v = OLD", "", "give()", "give.v = NEW"),
    ("partial", GIVE, "self.p = functools.partial(give, OLD)", "self.p()", "net.p = functools.partial(give, NEW)"),
    ("partial_keywords", GIVE, "self.p = functools.partial(give, v=OLD)", "self.p()", "net.p.keywords['v'] = NEW"),
    ("submodule", "", "self.sub = nn.Identity()\nself.sub.v = OLD", "self.sub.v", "net.sub.v = NEW"),
    ("hidden_module", "", "self.a = [nn.Identity()]\nself.a[0].v = OLD", "self.a[0].v", "net.a[0].v = NEW"),
    ("module_file", "own = types.ModuleType('own')\nown.v = OLD", "", "own.v", "own.v = NEW"),
    ("slots", "class S:\n    __slots__ = ('v',)", "self.o = S()\nself.o.v = OLD", "self.o.v", "net.o.v = NEW"),
    ("vars", "", "self.v = OLD", "vars(self)['v']", "vars(net)['v'] = NEW"),
    ("getattr_computed", "", "self.v1 = OLD", "getattr(self, 'v' + str(1))", "net.v1 = NEW"),
    ("attrgetter", "", "self.o = Box(OLD)", "operator.attrgetter('o.v')(self)", "net.o.v = NEW"),
    ("contextvar", "V = contextvars.ContextVar('V')\nV.set(OLD)", "", "V.get()", "V.set(NEW)"),
    ("thread_local", "V = threading.local()\nV.v = OLD", "", "V.v", "V.v = NEW"),
    ("weakref", "KEEP = Box(OLD)", "self.r = weakref.ref(KEEP)", "self.r().v", "KEEP.v = NEW"),
    ("iterator_of_list", "", "self.a = [OLD]", "next(iter(self.a))", "net.a[0] = NEW"),
    ("deque", "", "self.a = collections.deque([OLD])", "self.a[0]", "net.a[0] = NEW"),
    (
        "property",
        "",
        "self.o = type('P', (), dict(v=property(lambda s: s._v)))()\nself.o._v = OLD",
        "self.o.v",
        "net.o._v = NEW",
    ),
    ("private", "", "self._Net__v = OLD", "self.__v", "net._Net__v = NEW"),
    (
        "sys_modules",
        "sys.modules['own'] = types.SimpleNamespace(v=OLD)",
        "",
        "__import__('own').v",
        "sys.modules['own'].v = NEW",
    ),
)
# Name, old value, new value, forward. A NEW that begins with a dot changes the value where it is.
VALUES = (
    ("float", "2.0", "3.0", "return x * self.w * READ"),
    ("tensor", "torch.full((4,), 2.0)", "torch.full((4,), 3.0)", "return x * self.w * READ"),
    ("tensor_written", "torch.full((4,), 2.0)", ".fill_(3.0)", "return x * self.w * READ"),
    ("int", "2", "3", "return (x * self.w)[:, :READ]"),
    ("str", "'relu'", "'tanh'", "return getattr(torch, READ)(x * self.w)"),
    ("bool", "True", "False", "return x * self.w if READ else x - self.w"),
    ("none", "None", "torch.ones(4)", "v = READ\nreturn x * self.w if v is None else x * self.w + v"),
    ("function", "torch.relu", "torch.tanh", "return READ(x * self.w)"),
    ("dtype", "torch.float32", "torch.float64", "return (x * self.w).to(READ)"),
    ("array", "np.full(4, 2.0, np.float32)", ".fill(3.0)", "return x * self.w * float(READ.sum())"),
    ("array_replaced", "np.full(4, 2.0)", "np.full(4, 3.0)", "return x * self.w * torch.from_numpy(READ)"),
    ("numpy_scalar", "np.float32(2)", "np.float32(3)", "return x * self.w * float(READ)"),
    ("list_grown", "[2.0]", ".append(3.0)", "return x * self.w * sum(READ)"),
    ("dict_key", "{1.0: 0}", ".update({4.0: 0})", "return x * self.w * max(READ)"),
    ("set_grown", "{1.0}", ".add(4.0)", "return x * self.w * max(READ)"),
    ("slice", "slice(0, 2)", "slice(0, 3)", "return (x * self.w)[:, READ]"),
    ("complex", "complex(2, 1)", "complex(3, 1)", "return x * self.w * READ.real"),
)


def add_held_values() -> None:
    """Add cases of each place with the first three values, and with some of the others in turn."""
    others = itertools.cycle(VALUES[3:])
    for name, file, init, read, put in HOLDERS:
        for kind, old, new, body in (*VALUES[:3], *itertools.islice(others, 4)):
            if new.startswith("."):
                get = read.replace("self.__v", "net._Net__v").replace("self", "net")
                change, undo = get + new, get + new.replace("3.0", "2.0") if ".fill" in new else ""
            else:
                change, undo = put.replace("NEW", new), put.replace("NEW", old)
            file_now, init_now = file.replace("OLD", old), init.replace("OLD", old)
            body_now = body.replace("READ", read)
            add(f"held/{name}/{kind}", change, undo=undo, init=init_now, file=file_now, body=body_now)


# ------------------------------------------------------------------------------- attributes of layers of the library
# Name, the layer, its attribute, the new value (the old one is put back after), and how it is called.
IMAGE = "(x * self.w).reshape(1, 1, 3, 4)"
LAYERS = (
    ("conv_stride", "nn.Conv2d(1, 1, 1)", "stride", "(2, 2)", IMAGE),
    ("conv_padding_mode", "nn.Conv2d(1, 1, 3, padding=1)", "padding_mode", "'circular'", IMAGE),
    ("adaptive_pool", "nn.AdaptiveAvgPool2d(1)", "output_size", "2", IMAGE),
    ("batch_norm_momentum", "nn.BatchNorm1d(4)", "momentum", "0.5", "x * self.w"),
    ("batch_norm_eps", "nn.BatchNorm1d(4)", "eps", "0.5", "x * self.w"),
    ("batch_norm_mean", "nn.BatchNorm1d(4)", "running_mean", "torch.ones(4)", "x * self.w"),
    ("batch_norm_track", "nn.BatchNorm1d(4)", "track_running_stats", "False", "x * self.w"),
    ("batch_norm_counted", "nn.BatchNorm1d(4)", "num_batches_tracked", "torch.tensor(7)", "x * self.w"),
    ("instance_norm_eps", "nn.InstanceNorm2d(1)", "eps", "0.5", IMAGE),
    ("layer_norm_eps", "nn.LayerNorm(4)", "eps", "0.5", "x * self.w"),
    ("layer_norm_shape", "nn.LayerNorm(4, elementwise_affine=False)", "normalized_shape", "(3, 4)", "x * self.w"),
    ("dropout_p", "nn.Dropout(0.5)", "p", "0.0", "x * self.w"),
    ("dropout_training", "nn.Dropout(0.5)", "training", "(not net.sub.training)", "x * self.w"),
    ("alpha_dropout_p", "nn.AlphaDropout(0.5)", "p", "0.1", "x * self.w"),
    ("leaky_relu", "nn.LeakyReLU(0.5)", "negative_slope", "0.1", "x * self.w"),
    ("prelu", "nn.PReLU()", "weight", "nn.Parameter(torch.ones(1))", "x * self.w"),
    ("softmax_dim", "nn.Softmax(0)", "dim", "1", "x * self.w"),
    ("gelu", "nn.GELU()", "approximate", "'tanh'", "x * self.w"),
    ("upsample_mode", "nn.Upsample(scale_factor=2)", "mode", "'bilinear'", IMAGE),
    ("upsample_scale", "nn.Upsample(scale_factor=2.0)", "scale_factor", "3.0", IMAGE),
    ("embedding_max_norm", "nn.Embedding(4, 4)", "max_norm", "0.1", "x.long()"),
    ("embedding_padding", "nn.Embedding(4, 4)", "padding_idx", "0", "x.long()"),
    ("embedding_scaled", "nn.Embedding(4, 4)", "scale_grad_by_freq", "True", "x.long()"),
    ("pixel_shuffle", "nn.PixelShuffle(1)", "upscale_factor", "2", "(x * self.w).reshape(1, 4, 3, 1)"),
    ("flatten", "nn.Flatten(1)", "start_dim", "0", "x * self.w"),
    ("unflatten", "nn.Unflatten(1, (2, 2))", "unflattened_size", "(4, 1)", "x * self.w"),
    ("pad", "nn.ZeroPad2d(1)", "padding", "(0, 0, 0, 2)", IMAGE),
    ("linear_bias", "nn.Linear(4, 4)", "bias", "None", "x * self.w"),
    ("linear_weight", "nn.Linear(4, 4)", "weight", "nn.Parameter(torch.ones(4, 4))", "x * self.w"),
    ("linear_weight_smaller", "nn.Linear(4, 4, bias=False)", "weight", "nn.Parameter(torch.ones(2, 4))", "x * self.w"),
    ("attention_heads", "nn.MultiheadAttention(4, 2)", "num_heads", "4", "x * self.w, x, x"),
    ("encoder_activation", "nn.TransformerEncoderLayer(4, 2, 8, 0.0)", "activation", "F.silu", "x * self.w"),
    ("lstm_dropout", "nn.LSTM(4, 4, 2, dropout=0.5)", "dropout", "0.0", "x * self.w"),
    ("cross_entropy_reduction", "nn.CrossEntropyLoss()", "reduction", "'sum'", "x * self.w, torch.arange(3)"),
    ("cross_entropy_weight", "nn.CrossEntropyLoss()", "weight", "torch.arange(4.0)", "x * self.w, torch.arange(3)"),
    ("mse_reduction", "nn.MSELoss()", "reduction", "'sum'", "x * self.w, x"),
)


def add_layers() -> None:
    for name, layer, attribute, new, called in LAYERS:
        change = f"net.old = net.sub.{attribute}\nnet.sub.{attribute} = {new}"
        undo = f"net.sub.{attribute} = net.old\ndel net.old"
        init = f"self.sub = {layer}"
        if "(not" in new or name == "dropout_training":
            change, undo = "net.sub.train(not net.sub.training)", "net.sub.train(not net.sub.training)"
        if "Parameter" in new or attribute in ("bias", "running_mean", "num_batches_tracked", "weight", "pos_weight"):
            change, undo = f"OLD[0] = net.sub.{attribute}\nnet.sub.{attribute} = {new}", f"net.sub.{attribute} = OLD[0]"
        add(f"layer/{name}", change, undo=undo, init=init, file="OLD = [None]", body=f"return self.sub({called})")


# -------------------------------------------------------------------------------------------- cases of their own
# [group], and in it: name :: __init__ :: what forward multiplies with, or its body :: change :: what undoes it. Other
# parts follow with their names. A part without a name comes before the class; <GET> is a snippet.
SNIPPETS_TEXT = r"""
<GET>
    class D:
        def __init__(self, k=2.0):
            self.k = k
        def __get__(self, o, kind):
            return self.k
<SET>
    class D:
        held = {}
        def __get__(self, o, kind):
            return self.held[id(o)]
        def __set__(self, o, v):
            self.held[id(o)] = v
<META>
    class Meta(type):
        k = 2.0
        def __len__(cls):
            return int(cls.k)
        def __getattr__(cls, name):
            return cls.k
        def __call__(cls, *a):
            return cls.k
    class Thing(metaclass=Meta):
        pass
<REGISTRY>
    class Plugin:
        known = [1]
        def __init_subclass__(cls):
            Plugin.known.append(1)
    class First(Plugin):
        pass
<ENUM>
    class E(enum.Enum):
        A = 2.0
        B = 3.0
<TWO>
    def one(v=2.0):
        return v
    def two(v=3.0):
        return v
<HOOK>
    OLD = [None]
    def hook(*a):
        return a[-1] * hook.k if torch.is_tensor(a[-1]) else (a[-1][0] * hook.k,)
    hook.k = 2.0
<FUNCTION>
    class Own(torch.autograd.Function):
        k, b = 2.0, 2.0
        @staticmethod
        def forward(ctx, x):
            return x * Own.k
        @staticmethod
        def backward(ctx, g):
            return g * Own.b
<MODE>
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, f, kinds, args=(), kwargs=None):
            return (torch.tanh if f is torch.relu else f)(*args, **(kwargs or {}))
<DISPATCH>
    from torch.utils._python_dispatch import TorchDispatchMode
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, f, kinds, args=(), kwargs=None):
            return (torch.ops.aten.tanh.default if f is torch.ops.aten.relu.default else f)(*args, **(kwargs or {}))
"""
CASES_TEXT = r"""
[class]
descriptor_state :: :: self.v :: vars(type(net))['v'].k = 3.0 :: top: v = D()
    <GET>
descriptor_get_patched :: :: self.v :: D.__get__ = lambda s, o, t: 3.0 :: top: v = D()
    <GET>
descriptor_set :: self.v = 2.0 :: self.v :: net.v = 3.0 :: top: v = D()
    <SET>
property :: self._v = 2.0 :: self.v :: net._v = 3.0 :: top: v = property(lambda self: self._v)
property_of_global :: :: self.v :: global K; K = 3.0 :: file: K = 2.0 :: top: v = property(lambda self: K)
cached_property_deleted :: self.k = 2.0 :: self.v :: net.k = 3.0; del vars(net)['v']
  top:
    @functools.cached_property
    def v(self):
        return self.k
classmethod :: :: self.v() :: type(net).k = 3.0
  top:
    k = 2.0
    @classmethod
    def v(cls):
        return cls.k
staticmethod_replaced :: :: self.v() :: type(net).v = staticmethod(lambda: 3.0) :: top: v = staticmethod(lambda: 2.0)
own_attribute :: :: self.v :: type(net).v = 3.0 :: top: v = 2.0
shadowed_by_instance :: :: self.v :: net.v = 3.0 :: del net.v :: top: v = 2.0
unshadowed :: self.v = 2.0 :: self.v :: del net.v :: net.v = 2.0 :: top: v = 3.0
base_attribute_shadowed :: :: self.v :: type(net).v = 3.0 :: del type(net).v :: bases: Base
    class Base(nn.Module):
        v = 2.0
nn_module_attribute :: :: getattr(nn.Module, 'own_scale', 2.0) :: nn.Module.own_scale = 3.0 :: del nn.Module.own_scale
attribute_of_installed_class :: :: getattr(nn.Linear, 'own_scale', 2.0) :: nn.Linear.own_scale = 3.0
  undo: del nn.Linear.own_scale
type_name :: self.o = Box() :: len(type(self.o).__name__) :: Box.__name__ = 'Boxes' :: Box.__name__ = 'Box'
metaclass_attribute :: :: Thing.k :: Meta.k = 3.0
    <META>
metaclass_getattr :: :: Thing.other :: Meta.k = 3.0
    <META>
metaclass_shadowed :: :: Thing.k :: Thing.k = 3.0 :: del Thing.k
    <META>
metaclass_instancecheck :: :: 1.0 if isinstance(self, Thing) else 5.0 :: Meta.k = True :: Meta.k = False
    class Meta(type):
        k = False
        def __instancecheck__(cls, o):
            return cls.k
    class Thing(metaclass=Meta):
        pass
metaclass_iter :: :: sum(Thing) :: Thing.held.append(3.0) :: Thing.held.pop()
    class Meta(type):
        def __iter__(cls):
            return iter(cls.held)
    class Thing(metaclass=Meta):
        held = [2.0]
class_getitem :: :: Thing[1] :: Thing.k = 3.0
    class Thing:
        k = 2.0
        def __class_getitem__(cls, i):
            return cls.k * i
subclasses :: :: len(Plugin.__subclasses__())
    <REGISTRY>
  change:
    global Late
    class Late(Plugin):
        pass
abc_register :: self.o = Box() :: 1.0 if isinstance(self.o, Kind) else 5.0 :: Kind.register(Box)
    class Kind(abc.ABC):
        pass
protocol :: self.o = Box() :: 1.0 if isinstance(self.o, Kind) else 5.0 :: net.o.size = 1 :: del net.o.size
    @typing.runtime_checkable
    class Kind(typing.Protocol):
        size: int
singledispatch_register :: self.o = Box() :: f(self.o) :: f.register(Box, lambda o: 3.0)
    @functools.singledispatch
    def f(o):
        return 2.0
bases_replaced :: self.o = Thing() :: self.o.k() :: Thing.__bases__ = (B,) :: Thing.__bases__ = (A,)
    class A:
        def k(self):
            return 2.0
    class B:
        def k(self):
            return 3.0
    class Thing(A):
        pass
class_of_submodule :: self.sub = nn.ReLU() :: self.sub(x) :: net.sub.__class__ = nn.Tanh
  undo: net.sub.__class__ = nn.ReLU; net.sub.inplace = False
method_on_class :: :: self.k() :: type(net).k = lambda self: 3.0
  top:
    def k(self):
        return 2.0
bound_method_held :: self.f = Box(2.0).get :: self.f() :: net.f.__self__.v = 3.0
  file: Box.get = lambda self: self.v
forward_on_class :: :: 2.0 :: type(net).forward = lambda self, x: x * self.w * 3.0
forward_on_instance :: :: 2.0 :: net.forward = lambda x: x * net.w * 3.0 :: del net.forward
call_patched :: :: 2.0 :: type(net).__call__ = lambda self, x: self.forward(x) * 3.0 :: del type(net).__call__
submodule_forward_on_instance :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: net.sub.forward = lambda x: x + 1
  undo: del net.sub.forward
module_call_patched :: :: self.sub(x) :: nn.Linear.__call__ = lambda self, x: self.forward(x) + 1
  undo: del nn.Linear.__call__
  init: self.sub = nn.Linear(4, 4)
module_getattr :: :: self.other :: net.k = 3.0
  top:
    k = 2.0
    def __getattr__(self, name):
        return self.k if name == 'other' else super().__getattr__(name)
hasattr :: self.o = Box() :: 1.0 if hasattr(self.o, 'extra') else 5.0 :: net.o.extra = 1 :: del net.o.extra
attribute_deleted :: self.o = Box() :: self.o.v :: del net.o.v :: net.o.v = 2.0
dict_replaced :: self.o = Box() :: self.o.v :: net.o.__dict__ = dict(v=3.0)
dict_updated :: self.o = Box() :: self.o.v :: vars(net.o).update(v=3.0)
exit_swallows :: self.o = Thing() :: :: Thing.k = True :: Thing.k = False
    class Thing:
        k = False
        def __enter__(self): ...
        def __exit__(self, *e):
            return self.k
  body:
    v = 2.0
    try:
        with self.o:
            raise ValueError
    except ValueError:
        v = 3.0
    return x * self.w * v
exception_class :: :: :: global E; E = KeyError :: global E; E = ValueError :: file: E = ValueError
  body:
    try:
        try:
            raise ValueError
        except E:
            return x * self.w
    except ValueError:
        return x - self.w
assert_fails_now :: self.k = 2.0 :: assert self.k < 2.5; return x * self.w :: net.k = 3.0

[container]
defaultdict_factory :: :: copy.copy(self.d)['a'] :: net.d.default_factory = lambda: 3.0
  init: self.d = collections.defaultdict(lambda: 2.0)
ordered_dict_order :: :: next(iter(self.d.values())) :: net.d.move_to_end('a')
  undo: net.d.move_to_end('b')
  init: self.d = collections.OrderedDict(a=2.0, b=3.0)
dict_order :: self.d = dict(a=2.0, b=3.0) :: next(iter(self.d.values())) :: net.d['a'] = net.d.pop('a')
  undo: net.d['b'] = net.d.pop('b')
dict_keys_order :: :: return getattr(torch, list(self.d)[0])(x * self.w) :: net.d['relu'] = net.d.pop('relu')
  undo: net.d['tanh'] = net.d.pop('tanh')
  init: self.d = dict(relu=1, tanh=2)
dict_missing_key :: self.d = {} :: self.d.get('a', 2.0) :: net.d['a'] = 3.0 :: del net.d['a']
dict_deleted_key :: self.d = dict(a=2.0) :: self.d['a'] :: del net.d['a'] :: net.d['a'] = 2.0
dict_key_by_identity :: self.d = {Box: 2.0} :: self.d[Box] :: net.d[Box] = 3.0
dict_key_tensor :: self.d = {self.w: 2.0} :: self.d[self.w] :: net.d[net.w] = 3.0
dict_subclass_missing :: self.d = Own() :: self.d['a'] :: Own.k = 3.0
    class Own(dict):
        k = 2.0
        def __missing__(self, key):
            return self.k
dict_subclass_attribute :: self.d = Own(a=1.0); self.d.k = 2.0 :: self.d.k :: net.d.k = 3.0
    class Own(dict):
        pass
list_grown :: self.a = [2.0] :: sum(self.a) :: net.a.append(1.0) :: net.a.pop()
list_in_itself :: self.a = [2.0]; self.a.append(self.a) :: self.a[1][1][0] :: net.a[0] = 3.0
list_long :: self.a = [2.0] * 5000 :: self.a[4321] :: net.a[4321] = 3.0
object_in_long_list :: self.a = [Box() for _ in range(3000)] :: self.a[2345].v :: net.a[2345].v = 3.0
set_member :: self.a = {1} :: 2.0 if 4 in self.a else 3.5 :: net.a.add(4) :: net.a.remove(4)
set_length :: self.a = {1} :: len(self.a) :: net.a.add(4) :: net.a.remove(4)
frozenset_replaced :: self.a = frozenset({1, 2}) :: len(self.a) :: net.a = frozenset({1}) :: net.a = frozenset({1, 2})
object_in_set :: self.a = {Box()} :: max(b.v for b in self.a) :: next(iter(net.a)).v = 3.0
object_as_key :: self.a = {Box(): 0} :: next(iter(self.a)).v :: next(iter(net.a)).v = 3.0
deque_rotated :: self.a = collections.deque([2.0, 3.0]) :: self.a[0] :: net.a.rotate() :: net.a.rotate()
deque_maxlen :: :: self.a.maxlen :: net.a = collections.deque([2.0], maxlen=5)
  undo: net.a = collections.deque([2.0], maxlen=2)
  init: self.a = collections.deque([2.0], maxlen=2)
counter :: self.a = collections.Counter('aab') :: self.a['a'] :: net.a.update('a') :: net.a.subtract('a')
chain_map_shadowed :: self.a = collections.ChainMap({}, dict(k=2.0)) :: self.a['k'] :: net.a['k'] = 3.0
  undo: del net.a['k']
namedtuple_default :: :: P().k :: P.__new__.__defaults__ = (3.0,)
  file: P = collections.namedtuple('P', 'k', defaults=(2.0,))
dataclass :: self.a = P() :: self.a.k :: net.a.k = 3.0
    @dataclasses.dataclass()
    class P:
        k: float = 2.0
        a: list = dataclasses.field(default_factory=lambda: [2.0])
dataclass_default :: :: P().k :: P.__init__.__defaults__ = (3.0, *P.__init__.__defaults__[1:])
    @dataclasses.dataclass()
    class P:
        k: float = 2.0
        a: list = dataclasses.field(default_factory=lambda: [2.0])
enum_value_written :: :: E.A.value :: E.A._value_ = 3.0
    <ENUM>
enum_member_attribute :: self.e = E.A :: self.e.k :: E.A.k = 3.0
    <ENUM>
    E.A.k = 2.0
namespace :: self.a = types.SimpleNamespace(k=2.0) :: self.a.k :: net.a.k = 3.0
array :: self.a = array.array('d', [2.0]) :: self.a[0] :: net.a[0] = 3.0
bytearray :: self.a = bytearray(b'\x02') :: self.a[0] :: net.a[0] = 3 :: net.a[0] = 2
memoryview :: self.a = bytearray(b'\x02'); self.m = memoryview(self.a) :: self.m[0] :: net.a[0] = 3 :: net.a[0] = 2
mapping_proxy :: :: self.a['k'] :: net.under['k'] = 3.0
  init: self.under = dict(k=2.0); self.a = types.MappingProxyType(self.under)
dict_view :: self.d = dict(k=2.0); self.a = self.d.values() :: sum(self.a) :: net.d['k'] = 3.0
weak_value_dict :: self.a = weakref.WeakValueDictionary(k=KEEP) :: self.a['k'].v :: KEEP.v = 3.0 :: file: KEEP = Box()
weak_set :: self.a = weakref.WeakSet([KEEP]) :: max(b.v for b in self.a) :: KEEP.v = 3.0 :: file: KEEP = Box()
weak_proxy :: self.a = weakref.proxy(KEEP) :: self.a.v :: KEEP.v = 3.0 :: file: KEEP = Box()
contextvar_default :: self.c = contextvars.ContextVar('c', default=2.0) :: self.c.get() :: net.c.set(3.0)
thread_local_subclass :: self.t = Own() :: self.t.k :: net.t.k = 3.0
    class Own(threading.local):
        k = 2.0
queue :: self.q = queue.Queue() :: self.q.qsize() + 1.0 :: net.q.put(1) :: net.q.get()
lock :: self.l = threading.Lock() :: 1.0 if self.l.locked() else 5.0 :: net.l.acquire() :: net.l.release()
ctypes_array :: self.c = (ctypes.c_float * 2)(2.0, 1.0) :: self.c[0] :: net.c[0] = 3.0
bytes_io :: self.f = io.BytesIO(b'abcd') :: len(self.f.getvalue()) :: net.f.truncate(2)
decimal_replaced :: self.a = decimal.Decimal(2) :: float(self.a) :: net.a = decimal.Decimal(3)
  undo: net.a = decimal.Decimal(2)
uuid_like_int :: self.a = 2**70 :: self.a / 2**70 :: net.a = 2**71 :: net.a = 2**70
nan :: self.a = float('nan') :: self.a :: net.a = 3.0
minus_zero :: self.a = 0.0 :: return x * self.w / self.a :: net.a = -0.0 :: net.a = 0.0
one_and_true :: self.a = 1 :: return x * self.w if self.a is True else x - self.w :: net.a = True :: net.a = 1
one_and_one_float :: self.a = 1 :: return x * self.w, x.long() * self.a :: net.a = 1.0 :: net.a = 1
last_bit :: self.a = 0.1 + 0.2 :: 1e9 * (self.a - 0.3) * 1e7 :: net.a = 0.3 :: net.a = 0.1 + 0.2
complex_sign :: self.a = complex(1, 0.0) :: math.copysign(1.0, self.a.imag) :: net.a = complex(1, -0.0)
  undo: net.a = complex(1, 0.0)
ellipsis :: self.a = None :: return (x * self.w)[self.a].sum(0) :: net.a = ... :: net.a = None
random_state :: self.r = random.Random(0) :: copy.copy(self.r).random() :: net.r.seed(1) :: net.r.seed(0)
decimal_context :: :: float(decimal.Decimal(1) / decimal.Decimal(3)) * 3 :: decimal.getcontext().prec = 1
  undo: decimal.getcontext().prec = 28

[function]
global_replaced :: :: one() :: global one; one = two
    <TWO>
code_of_forward :: :: 2.0 :: type(net).forward.__code__ = (lambda self, x: x * self.w * 3.0).__code__
code_of_lambda_held :: self.f = lambda: 2.0 :: self.f() :: net.f.__code__ = (lambda: 3.0).__code__
attribute_through_self :: :: return x * self.w * getattr(type(self).forward, 'k', 2.0) :: type(net).forward.k = 3.0
  undo: del type(net).forward.k
name :: self.f = one :: return getattr(torch, self.f.__name__)(x * self.w) :: one.__name__ = 'tanh'
    <TWO>
    one.__name__ = 'relu'
  undo: one.__name__ = 'relu'
in_list :: self.a = [one] :: self.a[0]() :: net.a[0] = two :: net.a[0] = one
    <TWO>
closure_of_closure :: self.f, self.put = make() :: self.f()() :: net.put(3.0)
    def make():
        v = 2.0
        def f():
            def g():
                return v
            return g
        def put(new):
            nonlocal v
            v = new
        return f, put
closure_holds_object_alone :: self.f = make() :: self.f() :: net.f.__closure__[0].cell_contents.v = 3.0
    def make():
        o = Box()
        return lambda: o.v
partial_attribute :: self.p = functools.partial(one); self.p.k = 2.0 :: self.p.k :: net.p.k = 3.0
    <TWO>
lru_cache_cleared :: :: f() :: global K; K = 3.0; f.cache_clear()
    K = 2.0
    @functools.lru_cache
    def f():
        return K
decorator_state :: :: f() :: deco.scale = 3.0
    def deco(g):
        def inner():
            return g() * deco.scale
        return inner
    deco.scale = 2.0
    @deco
    def f():
        return 1.0
contextmanager :: :: :: SCALE[0] = 3.0
    SCALE = [2.0]
    @contextlib.contextmanager
    def scale():
        yield SCALE[0]
  body:
    with scale() as k:
        return x * self.w * k
generator_over_list :: self.a = [2.0] :: sum(v for v in self.a) :: net.a.append(1.0) :: net.a.pop()
generator_sent :: self.g = f(); next(self.g) :: self.g.gi_frame.f_locals['v'] :: net.g.send(3.0)
    def f():
        v = 2.0
        while True:
            v = (yield v) or v
yield_from :: :: sum(f()) :: A[0] = 3.0
    A = [2.0]
    def f():
        yield from A
dict_comprehension :: self.a = dict(k=2.0) :: {k: v for k, v in self.a.items()}['k'] :: net.a['k'] = 3.0
keywords_unpacked :: self.a = dict(k=2.0) :: (lambda k: k)(**self.a) :: net.a['k'] = 3.0
itemgetter :: self.a = [1.0, 2.0] :: operator.itemgetter(1)(self.a) :: net.a[1] = 3.0
eval :: self.e = '2.0' :: eval(self.e) :: net.e = '3.0'
exec_code_object :: self.c = compile('2.0', 'f', 'eval') :: eval(self.c) :: net.c = compile('3.0', 'f', 'eval')
format_of_name :: self.names = ['relu'] :: return getattr(F, f'{self.names[0]}')(x * self.w) :: net.names[0] = 'tanh'
  undo: net.names[0] = 'relu'
loop_count :: self.n = 2 :: :: net.n = 3 :: net.n = 2
  body:
    for _ in range(self.n):
        x = x * self.w
    return x
try_attribute :: :: :: net.k = 3.0 :: del net.k
  body:
    try:
        k = self.k
    except AttributeError:
        k = 2.0
    return x * self.w * k
itertools_count :: self.c = itertools.count(2) :: next(copy.copy(self.c)) :: next(net.c)
identity :: self.a, self.b = [], [] :: 1.0 if self.a is self.b else 5.0 :: net.b = net.a :: net.b = []
equal_lists :: self.a, self.b = [1], [1] :: 1.0 if self.a == self.b else 5.0 :: net.b.append(1) :: net.b.pop()
identity_of_tensors :: self.a = self.b = torch.ones(4) :: 1.0 if self.a is self.b else 5.0 :: net.b = torch.ones(4)
  undo: net.b = net.a
set_attribute_of_net_late :: :: len([k for k in vars(self) if k.startswith('late')]) + 1.0 :: net.late1 = 1
  undo: del net.late1
frame_globals :: :: sys._getframe().f_globals['K'] :: global K; K = 3.0 :: file: K = 2.0
method_of_held_class :: self.kind = Box :: self.kind().v :: Box.__init__.__defaults__ = (3.0,)
bound_builtin :: self.a = [2.0, 3.0]; self.f = self.a.index :: self.f(3.0) + 1.0 :: net.a.insert(0, 1.0)
  undo: net.a.pop(0)
bound_getitem :: self.f = {1: 2.0}.__getitem__ :: self.f(1) :: net.f.__self__[1] = 3.0
bound_get_of_hidden_dict :: self.f = HIDDEN.get :: self.f(1) :: HIDDEN[1] = 3.0 :: file: HIDDEN = {1: 2.0}

[outside]
builtin_shadowed :: :: abs(-2.0) :: global abs; abs = lambda v: 3.0 :: global abs; del abs
builtin_replaced :: self.a = [1.0, 2.0] :: max(self.a) :: builtins.max = min :: builtins.max = MAX :: file: MAX = max
builtin_added :: :: own_scale :: builtins.own_scale = 3.0 :: file: builtins.own_scale = 2.0
builtin_hidden_by_global :: :: own_scale :: globals()['own_scale'] = 3.0 :: del globals()['own_scale']
  file: builtins.own_scale = 2.0
global_deleted :: :: K :: global K; del K :: global K; K = 2.0 :: file: K = 2.0
import_inside :: :: import neighbour; return x * self.w * neighbour.K :: neighbour.K = 3.0 :: other: K = 2.0
import_from_inside :: :: from neighbour import K; return x * self.w * K :: neighbour.K = 3.0 :: other: K = 2.0
import_star :: :: K :: global K; K = 3.0 :: file: from neighbour import * :: other: K = 2.0
module_attribute :: :: neighbour.K :: neighbour.K = 3.0 :: other: K = 2.0
module_function_global :: :: neighbour.f() :: neighbour.K = 3.0
  other:
    K = 2.0
    def f():
        return K
module_held_by_attribute :: self.m = neighbour :: self.m.K :: neighbour.K = 3.0 :: other: K = 2.0
module_getattr :: :: neighbour.late :: neighbour.K = 3.0
  other:
    K = 2.0
    def __getattr__(name):
        if name == 'late':
            return K
        raise AttributeError(name)
reload :: :: neighbour.K :: pathlib.Path(neighbour.__file__).write_text('K = 3.0'); importlib.reload(neighbour)
  other: K = 2.0
module_class_replaced :: :: neighbour.K :: neighbour.__class__ = Late :: neighbour.__class__ = types.ModuleType
    import string as neighbour
    neighbour.K = 2.0
    class Late(types.ModuleType):
        def __getattribute__(self, name):
            return 3.0 if name == 'K' else super().__getattribute__(name)
sys_modules_replaced :: :: import neighbour; return x * self.w * neighbour.K
  other: K = 2.0
  change: sys.modules['neighbour'] = types.SimpleNamespace(K=3.0)
sys_modules_read :: :: sys.modules['neighbour'].K :: sys.modules['neighbour'].K = 3.0 :: other: K = 2.0
environ :: :: float(os.environ.get('OWN_SCALE', '2.0')) :: os.environ['OWN_SCALE'] = '3.0'
getenv :: :: float(os.getenv('OWN_SCALE', '2.0')) :: os.environ['OWN_SCALE'] = '3.0'
environ_held :: self.e = os.environ :: float(self.e.get('OWN_SCALE', '2.0')) :: os.environ['OWN_SCALE'] = '3.0'
sys_argv :: :: len(sys.argv) :: sys.argv.append('--fast') :: sys.argv.pop()
sys_path :: :: len(sys.path) :: sys.path.append('/own') :: sys.path.pop()
recursion_limit :: :: sys.getrecursionlimit() :: sys.setrecursionlimit(9000)
file_content :: :: float(self.p.read_text()) :: net.p.write_text('3.0')
  init: self.p = pathlib.Path(__file__).with_suffix('.txt'); self.p.write_text('2.0')
file_exists :: self.p = pathlib.Path(__file__ + '.flag') :: 1.0 if self.p.exists() else 5.0 :: net.p.touch()
  undo: net.p.unlink()
working_folder :: :: len(os.getcwd()) :: net.cwd = os.getcwd(); os.chdir(os.path.dirname(__file__))
  undo: os.chdir(net.cwd)
time_patched :: :: time.time() :: time.time = lambda: 3.0 :: file: time.time = lambda: 2.0
math_patched :: :: math.pi :: math.pi = 3.0 :: math.pi = PI :: file: PI = math.pi
gc_enabled :: :: 1.0 if gc.isenabled() else 5.0 :: gc.disable() :: gc.enable()
warning_filters :: :: len(warnings.filters) :: warnings.simplefilter('ignore', FutureWarning, append=True)
logging_disabled :: :: logging.root.manager.disable + 1.0 :: logging.disable(20) :: logging.disable(0)
numpy_attribute :: :: getattr(np, 'own_scale', 2.0) :: np.own_scale = 3.0
numpy_error_state :: :: 1.0 if np.geterr()['divide'] == 'raise' else 5.0 :: np.seterr(divide='raise')
  undo: np.seterr(divide='warn')
random_module_state :: :: random.Random.random(copy.copy(random._inst)) :: random.seed(1) :: random.seed(0)
  file: random.seed(0)
torch_function_patched :: :: return torch.relu(x * self.w) :: torch.relu = torch.tanh :: torch.relu = RELU
  file: RELU = torch.relu
functional_patched :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: F.linear = lambda x, w, b: x @ w
  file: LINEAR = F.linear
  undo: F.linear = LINEAR
tensor_method_patched :: :: return (x * self.w).relu() :: torch.Tensor.relu = torch.Tensor.tanh
  undo: del torch.Tensor.relu
torch_attribute :: :: getattr(torch, 'own_scale', 2.0) :: torch.own_scale = 3.0

[torch]
default_dtype_tensor :: :: torch.tensor([1.5]) :: torch.set_default_dtype(torch.float64)
  undo: torch.set_default_dtype(torch.float32)
default_dtype_asked :: :: (5.0 if torch.get_default_dtype() == torch.float64 else 1.0)
  undo: torch.set_default_dtype(torch.float32)
  change: torch.set_default_dtype(torch.float64)
default_device_asked :: :: 1.0 if torch.get_default_device().type == 'meta' else 5.0
  undo: torch.set_default_device('cpu')
  change: torch.set_default_device('meta')
grad_mode :: :: 2.0 :: torch.set_grad_enabled(False) :: torch.set_grad_enabled(True)
grad_mode_asked :: :: 2.0 if torch.is_grad_enabled() else 5.0 :: torch.set_grad_enabled(False)
  undo: torch.set_grad_enabled(True)
grad_mode_of_part :: self.k = True :: :: net.k = False :: net.k = True
  body:
    with torch.set_grad_enabled(self.k):
        y = x * self.w
    return y + x * self.w * 2
inference_mode_asked :: :: 2.0 if torch.is_inference_mode_enabled() else 5.0
  undo: net.m.__exit__(None, None, None)
  change: net.m = torch.inference_mode(); net.m.__enter__()
deterministic_asked :: :: 2.0 if torch.are_deterministic_algorithms_enabled() else 5.0
  undo: torch.use_deterministic_algorithms(False)
  change: torch.use_deterministic_algorithms(True)
deterministic_refuses
  undo: torch.use_deterministic_algorithms(False)
  change: torch.use_deterministic_algorithms(True)
  body: return x * self.w, torch.empty(2).fill_(1.0), 5.0 if torch.get_deterministic_debug_mode() else 1.0
matmul_precision_asked :: :: len(torch.get_float32_matmul_precision()) :: torch.set_float32_matmul_precision('medium')
  undo: torch.set_float32_matmul_precision('highest')
matmul_precision_bf16
  change: torch.set_float32_matmul_precision('medium'); torch.backends.mkldnn.matmul.fp32_precision = 'bf16'
  body: return x @ torch.eye(4) * self.w, 1.0 if torch.get_float32_matmul_precision() == 'medium' else 5.0
allow_tf32 :: :: 2.0 if torch.backends.cuda.matmul.allow_tf32 else 5.0 :: torch.backends.cuda.matmul.allow_tf32 = True
  undo: torch.backends.cuda.matmul.allow_tf32 = False
num_threads :: :: float(torch.get_num_threads()) :: torch.set_num_threads(2) :: torch.set_num_threads(1)
anomaly_asked :: :: 2.0 if torch.is_anomaly_enabled() else 5.0 :: torch.autograd.set_detect_anomaly(True)
  undo: torch.autograd.set_detect_anomaly(False)
autocast :: :: self.sub(x) :: net.m = torch.autocast('cpu', torch.bfloat16); net.m.__enter__()
  undo: net.m.__exit__(None, None, None)
  init: self.sub = nn.Linear(4, 4)
autocast_asked :: :: 2.0 if torch.is_autocast_enabled('cpu') else 5.0
  undo: net.m.__exit__(None, None, None)
  change: net.m = torch.autocast('cpu', torch.bfloat16); net.m.__enter__()
autocast_dtype :: self.sub = nn.Linear(4, 4) :: :: torch.set_autocast_dtype('cpu', torch.float16)
  body:
    with torch.autocast('cpu'):
        return self.sub(x), x * self.w
  undo: torch.set_autocast_dtype('cpu', torch.bfloat16)
autocast_inside :: self.sub = nn.Linear(4, 4); self.on = False :: :: net.on = True :: net.on = False
  body:
    with torch.autocast('cpu', torch.bfloat16, enabled=self.on):
        return self.sub(x), x * self.w
function_mode :: :: return torch.relu(x * self.w) :: net.m = Mode(); net.m.__enter__()
    <MODE>
  undo: net.m.__exit__(None, None, None)
dispatch_mode :: :: return torch.relu(x * self.w) :: net.m = Mode(); net.m.__enter__()
    <DISPATCH>
  undo: net.m.__exit__(None, None, None)
sdpa_kernel_asked :: :: 2.0 if torch.backends.cuda.math_sdp_enabled() else 5.0
  undo: torch.backends.cuda.enable_math_sdp(True)
  change: torch.backends.cuda.enable_math_sdp(False)
custom_op_registered_again :: :: torch.ops.own_ops.scale(x) :: LIB[0]._destroy(); LIB[0] = lib(3.0)
    LIB = []
    def lib(k):
        l = torch.library.Library('own_ops', 'FRAGMENT')
        l.define('scale(Tensor x) -> Tensor')
        l.impl('scale', lambda x: x * k, 'CompositeImplicitAutograd')
        return l
    LIB.append(lib(2.0))

[part]
submodule_replaced :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: net.sub = nn.Identity()
submodule_to_other_kind :: self.sub = nn.ReLU() :: self.sub(x - 1) :: net.sub = nn.Tanh() :: net.sub = nn.ReLU()
submodule_of_same_kind :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: torch.manual_seed(5); net.sub = nn.Linear(4, 4)
submodule_none :: self.sub = nn.Linear(4, 4) :: x if self.sub is None else self.sub(x) :: net.sub = None
submodule_added :: :: self.late(x) if hasattr(self, 'late') else 2.0 :: net.late = nn.Identity() :: del net.late
submodule_removed :: self.sub = nn.Tanh() :: self.sub(x) if 'sub' in self._modules else 2.0 :: del net.sub
  undo: net.sub = nn.Tanh()
sequential_grown :: self.s = nn.Sequential(nn.Tanh()) :: self.s(x) :: net.s.append(nn.Tanh()) :: net.s.pop(1)
sequential_item :: self.s = nn.Sequential(nn.Tanh()) :: self.s(x) :: net.s[0] = nn.ReLU() :: net.s[0] = nn.Tanh()
sequential_emptied :: self.s = nn.Sequential(nn.Tanh()) :: self.s(x) :: del net.s[0] :: net.s.append(nn.Tanh())
children_counted :: self.sub = nn.Identity() :: len(list(self.children())) :: net.late = nn.Identity() :: del net.late
parameters_counted :: :: len(list(self.parameters())) :: net.b = nn.Parameter(torch.ones(4)) :: del net.b
list_of_modules_hidden :: self.a = [nn.Linear(4, 4)] :: self.a[0](x) :: net.a[0] = nn.Tanh()
hidden_module_weight :: self.a = [nn.Linear(4, 4).requires_grad_(False)] :: self.a[0](x) :: net.a[0].weight.fill_(1.0)
module_in_global :: :: G(x) :: global G; G = nn.Softmax(0) :: global G; G = nn.Tanh() :: file: G = nn.Tanh()
shared_submodule :: :: self.also(self.sub(x)) :: net.also = nn.Linear(4, 4)
  undo: net.also = net.sub
  init: self.sub = nn.Linear(4, 4); self.also = self.sub
parameter_written :: :: 2.0 :: net.w.data.mul_(2.0) :: net.w.data.div_(2.0)
parameter_replaced :: :: 2.0 :: net.w = nn.Parameter(torch.ones(4))
parameter_data_replaced :: :: 2.0 :: net.w.data = torch.ones(4)
parameter_other_shape :: :: 2.0 :: net.w = nn.Parameter(torch.ones(1))
parameter_other_dtype :: :: 2.0 :: net.w = nn.Parameter(torch.ones(4, dtype=torch.float64))
parameter_frozen_one_of_two :: self.v = nn.Parameter(torch.ones(4)) :: self.v :: net.v.requires_grad_(False)
  undo: net.v.requires_grad_(True)
parameters_tied :: self.v = nn.Parameter(torch.ones(4)) :: self.v :: net.v = net.w
parameters_untied :: self.v = self.w :: self.v :: net.v = nn.Parameter(torch.ones(4)) :: net.v = net.w
parameters_dict :: :: 2.0 :: net._parameters['w'] = nn.Parameter(torch.ones(4))
parameter_list_grown :: self.p = nn.ParameterList([torch.ones(4)]) :: sum(self.p) :: net.p.append(torch.ones(4))
parameter_attribute :: self.w.k = 2.0 :: self.w.k :: net.w.k = 3.0
parameter_becomes_tensor :: self.v = nn.Parameter(torch.ones(4)) :: self.v :: del net.v; net.v = torch.full((4,), 3.0)
load_state_dict :: :: 2.0 :: net.load_state_dict(dict(w=torch.ones(4)))
load_state_dict_assign :: :: 2.0 :: net.load_state_dict(dict(w=torch.ones(4)), assign=True)
module_to_double :: :: 2.0 :: net.double() :: net.float()
module_apply :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: net.sub.apply(lambda m: m.weight.data.fill_(1.0))
zero_grad_asked :: :: 2.0 if self.w.grad is None else 5.0 :: net.w.grad = torch.ones(4) :: net.w.grad = None
buffer_replaced :: self.register_buffer('b', torch.full((4,), 2.0)) :: self.b :: net.b = torch.full((4,), 3.0)
buffer_written :: self.register_buffer('b', torch.full((4,), 2.0)) :: self.b :: net.b.fill_(3.0)
buffer_other_shape :: self.register_buffer('b', torch.full((4,), 2.0)) :: self.b :: net.b = torch.full((1,), 3.0)
buffer_registered :: :: self.b if hasattr(self, 'b') else 2.5 :: net.register_buffer('b', torch.ones(4)) :: del net.b
buffer_expanded :: self.register_buffer('b', torch.full((4,), 2.0)) :: self.b :: net.b = torch.tensor(3.0).expand(4)
buffer_aliases_other :: self.a = torch.ones(4); self.b = self.a :: self.b :: net.a.fill_(3.0)
buffer_of_numpy :: self.n = np.full(4, 2.0, np.float32); self.b = torch.from_numpy(self.n) :: self.b :: net.n[0] = 3.0
buffer_item_number :: self.register_buffer('b', torch.full((4,), 2.0)) :: float(self.b[0]) :: net.b.fill_(3.0)
buffer_item_tolist :: self.register_buffer('b', torch.full((4,), 2.0)) :: self.b.tolist()[0] :: net.b.fill_(3.0)
buffer_item_numpy :: self.register_buffer('b', torch.full((4,), 2.0)) :: float(self.b.numpy()[0]) :: net.b.fill_(3.0)
buffer_version :: self.register_buffer('b', torch.full((4,), 2.0)) :: self.b._version + 1.0 :: net.b.fill_(2.0)
tensor_attribute :: self.v = torch.full((4,), 2.0) :: self.v :: net.v = torch.full((4,), 3.0)
tensor_attribute_to_number :: self.v = torch.tensor(2.0) :: self.v :: net.v = 3.0
tensor_set :: self.v = torch.full((4,), 2.0) :: self.v :: net.v.set_(torch.full((4,), 3.0))
tensor_number_of_tensor :: self.v = torch.ones(4); self.v.k = 2.0 :: self.v.k :: net.v.k = 3.0
tensor_global :: :: T :: global T; T = torch.full((4,), 3.0) :: file: T = torch.full((4,), 2.0)
tensor_global_written :: :: T :: T.fill_(3.0) :: file: T = torch.full((4,), 2.0)
tensor_class_attribute :: :: self.v :: type(net).v = torch.full((4,), 3.0) :: top: v = torch.full((4,), 2.0)
tensor_subclass :: self.v = torch.full((4,), 2.0) :: self.v :: net.v = net.v.as_subclass(Own)
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, kinds, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return f(*args, **(kwargs or {})) + 1
  undo: net.v = torch.full((4,), 2.0)
tensor_grad_fn :: self.v = torch.tensor(2.0) :: self.v :: net.v = net.w.sum() + 3.0 :: net.v = torch.tensor(2.0)
array_item :: self.n = np.full(4, 2.0) :: float(self.n[0]) :: net.n[0] = 3.0
array_large :: self.n = np.full(100_000, 2.0) :: float(self.n[77_777]) :: net.n[77_777] = 3.0
array_view :: self.base = np.full(8, 2.0); self.n = self.base[::2] :: float(self.n[1]) :: net.base[2] = 3.0
array_of_objects :: self.n = np.array([Box()], dtype=object) :: self.n[0].v :: net.n[0].v = 3.0
array_shape :: self.n = np.zeros(4) :: self.n.ndim :: net.n.shape = (2, 2) :: net.n.shape = (4,)
numpy_generator :: self.g = np.random.default_rng(0) :: copy.deepcopy(self.g).random() :: net.g.random()
  undo: net.g = np.random.default_rng(0)
torch_generator :: self.g = torch.Generator().manual_seed(0) :: self.g.initial_seed() + 1.0 :: net.g.manual_seed(1)
  undo: net.g.manual_seed(0)
mode_of_all :: :: 1.0 if self.training else 5.0 :: net.train(not net.training) :: net.train(not net.training)
mode_flag_of_net_alone :: :: self.sub(x) * (1.0 if self.training else 5.0) :: net.training = not net.training
  undo: net.training = not net.training
  init: self.sub = nn.Dropout(0.5)
optimizer_step :: self.o = torch.optim.SGD([self.w], 0.1) :: 2.0 :: net.w.grad = torch.ones(4); net.o.step()
loss_output_object :: self.k = 2.0 :: return types.SimpleNamespace(loss=(x * self.w * self.k).sum()) :: net.k = 3.0
output_key :: self.k = 'a' :: return {self.k: x * self.w} :: net.k = 'b' :: net.k = 'a'
output_number :: self.k = 2.0 :: return x * self.w, self.k :: net.k = 3.0
output_object :: self.o = Box() :: return x * self.w, self.o.v, [self.o.v] :: net.o.v = 3.0
output_str :: self.k = 'a' :: return x * self.w, self.k :: net.k = 'b' :: net.k = 'a'

[hook]
forward_hook_added_net :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: OLD[0] = net.register_forward_hook(hook)
    <HOOK>
  undo: OLD[0].remove()
forward_hook_state_net :: self.sub = nn.Linear(4, 4); self.register_forward_hook(hook) :: self.sub(x) :: hook.k = 3.0
    <HOOK>
forward_hook_added_net.sub :: :: self.sub(x) :: OLD[0] = net.sub.register_forward_hook(hook)
    <HOOK>
  undo: OLD[0].remove()
  init: self.sub = nn.Linear(4, 4)
forward_hook_state_net.sub :: :: self.sub(x) :: hook.k = 3.0
    <HOOK>
  init: self.sub = nn.Linear(4, 4); self.sub.register_forward_hook(hook)
global_forward_hook_added :: :: self.sub(x) :: OLD[0] = nn.modules.module.register_module_forward_hook(hook)
    <HOOK>
  undo: OLD[0].remove()
  init: self.sub = nn.Linear(4, 4)
forward_pre_hook_added_net.sub :: :: self.sub(x) :: OLD[0] = net.sub.register_forward_pre_hook(hook)
    <HOOK>
  undo: OLD[0].remove()
  init: self.sub = nn.Linear(4, 4)
forward_pre_hook_state_net.sub :: :: self.sub(x) :: hook.k = 3.0
    <HOOK>
  init: self.sub = nn.Linear(4, 4); self.sub.register_forward_pre_hook(hook)
global_forward_pre_hook_state :: :: self.sub(x) :: hook.k = 3.0
    <HOOK>
  init: self.sub = nn.Linear(4, 4); nn.modules.module.register_module_forward_pre_hook(hook)
forward_hook_closure :: :: self.sub(x) :: net.k[0] = 3.0
  init: self.sub = nn.Linear(4, 4); self.k = [2.0]; self.sub.register_forward_hook(lambda m, a, y: y * self.k[0])
backward_hook_added :: :: self.sub(x * self.w)
    <HOOK>
  undo: OLD[0].remove()
  init: self.sub = nn.Linear(4, 4)
  change: OLD[0] = net.sub.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
backward_hook_state :: :: self.sub(x * self.w) :: hook.k = 3.0
    <HOOK>
  init: self.sub = nn.Linear(4, 4); self.sub.register_full_backward_hook(lambda m, i, o: (i[0] * hook.k,))
backward_pre_hook_added :: :: self.sub(x * self.w)
    <HOOK>
  undo: OLD[0].remove()
  init: self.sub = nn.Linear(4, 4)
  change: OLD[0] = net.sub.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
global_backward_hook :: self.sub = nn.Linear(4, 4) :: self.sub(x * self.w) :: :: OLD[0].remove()
    <HOOK>
  change:
    twice = lambda m, i, o: None if i[0] is None else (i[0] * 2,)
    OLD[0] = nn.modules.module.register_module_full_backward_hook(twice)
parameter_hook_added :: :: 2.0 :: OLD[0] = net.w.register_hook(lambda g: g * 2) :: OLD[0].remove()
    <HOOK>
parameter_hook_removed :: OLD[0] = self.w.register_hook(lambda g: g * 2) :: 2.0 :: OLD[0].remove()
    <HOOK>
parameter_hook_state :: self.w.register_hook(lambda g: g * hook.k) :: 2.0 :: hook.k = 3.0
    <HOOK>
parameter_accumulate_hook :: :: 2.0
    <HOOK>
  change: OLD[0] = net.w.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', p.grad * 2))
  undo: OLD[0].remove()
tensor_hook_in_forward :: self.k = 2.0 :: :: net.k = 3.0
  body:
    y = x * self.w
    k = self.k
    if y.requires_grad:
        y.register_hook(lambda g: g * k)
    return y * 2
saved_tensors :: :: (x * self.w).exp()
    <HOOK>
  undo: OLD[0].__exit__()
  change: OLD[0] = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t); OLD[0].__enter__()
parametrization_added :: :: self.sub(x) :: nn.utils.parametrize.register_parametrization(net.sub, 'weight', nn.Tanh())
  undo: nn.utils.parametrize.remove_parametrizations(net.sub, 'weight', leave_parametrized=False)
  init: self.sub = nn.Linear(4, 4)
parametrization_state :: :: self.sub(x) :: net.sub.parametrizations.weight[0].k = 3.0
    class Scale(nn.Module):
        k = 2.0
        def forward(self, w):
            return w * self.k
  init: self.sub = nn.Linear(4, 4); nn.utils.parametrize.register_parametrization(self.sub, 'weight', Scale())
weight_norm_added :: :: self.sub(x)
  init: self.sub = nn.Linear(4, 4)
  change: nn.utils.parametrizations.weight_norm(net.sub); net.sub.parametrizations.weight.original0.data.fill_(3.0)
  undo: nn.utils.parametrize.remove_parametrizations(net.sub, 'weight')
spectral_norm_iterations :: :: self.sub(x) :: net.sub.parametrizations.weight[0].n_power_iterations = 5
  init: self.sub = nn.Linear(4, 4); nn.utils.parametrizations.spectral_norm(self.sub, n_power_iterations=1)
pruning_added :: self.sub = nn.Linear(4, 4) :: self.sub(x) :: nn.utils.prune.l1_unstructured(net.sub, 'weight', 0.5)
  file: import torch.nn.utils.prune
  undo: nn.utils.prune.remove(net.sub, 'weight'); net.sub.weight.data.fill_(1.0)

[autograd]
forward_state :: :: return Own.apply(x * self.w) :: Own.k = 3.0
    <FUNCTION>
backward_state :: :: return Own.apply(x * self.w) :: Own.b = 3.0
    <FUNCTION>
backward_replaced :: :: return Own.apply(x * self.w) :: Own.backward = staticmethod(lambda ctx, g: g * 3.0)
    <FUNCTION>
backward_code :: :: return Own.apply(x * self.w) :: Own.backward.__code__ = (lambda ctx, g: g * 3.0).__code__
    <FUNCTION>
apply_replaced :: :: return Own.apply(x * self.w) :: Own.apply = torch.tanh :: del Own.apply
    <FUNCTION>
apply_held :: self.f = Own.apply :: return self.f(x * self.w) :: Own.k = 3.0
    <FUNCTION>
backward_global :: :: return Own.apply(x * self.w) :: global K; K = 3.0
    class Own(torch.autograd.Function):
        k, b = 2.0, 2.0
        @staticmethod
        def forward(ctx, x):
            return x * Own.k
        @staticmethod
        def backward(ctx, g):
            return g * K
    K = 2.0
ctx_state :: self.k = 2.0 :: return Own.apply(x * self.w, self.k) :: net.k = 3.0
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x
        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None
setup_context :: :: return Own.apply(x * self.w) :: Own.b = 3.0
    class Own(torch.autograd.Function):
        b = 2.0
        @staticmethod
        def forward(x):
            return x * 1.0
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = Own.b
        @staticmethod
        def backward(ctx, g):
            return g * ctx.k
backward_object_held :: self.o = Box() :: return Own.apply(x * self.w, self.o) :: net.o.v = 3.0
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, o):
            ctx.o = o
            return x * 1.0
        @staticmethod
        def backward(ctx, g):
            return g * ctx.o.v, None
checkpointed_state :: self.k = 2.0 :: :: net.k = 3.0
  body:
    from torch.utils.checkpoint import checkpoint
    return checkpoint(lambda y: (y * self.k).exp(), x * self.w, use_reentrant=False)
detached :: self.k = False :: y = x * self.w; return (y.detach() if self.k else y) * self.w :: net.k = True
  undo: net.k = False

[loss]
class_with_state :: self.loss = Loss() :: return self.loss(x * self.w) :: net.loss.k = 3.0
    class Loss:
        k = 2.0
        def __call__(self, y):
            return (y * self.k).sum()
function_replaced :: self.loss = F.mse_loss :: return self.loss(x * self.w, x) :: net.loss = F.l1_loss
  undo: net.loss = F.mse_loss
weights_by_task :: :: return sum(k * (x * self.w).sum() ** n for n, k in enumerate(self.weights.values(), 1))
  init: self.weights = dict(a=1.0, b=2.0)
  change: net.weights['b'] = 3.0
schedule :: :: return (x * self.w).sum() * self.schedule(self.step) :: net.step = 1
  undo: net.step = 0
  init: self.step, self.schedule = 0, lambda n: 2.0 + n

[inside]
counter :: self.n = 0 :: self.n += 1; return x * self.w * self.n :: probe: net.n
counter_unread :: self.n = 0 :: self.n += 1; return x * self.w :: probe: net.n
counter_of_object :: self.o = Box(0) :: self.o.v += 1; return x * self.w * self.o.v :: probe: net.o.v
counter_global :: :: global N; N += 1; return x * self.w * N :: file: N = 0 :: probe: N
counter_global_dict :: :: N['n'] += 1; return x * self.w :: file: N = dict(n=0) :: probe: N
counter_of_class :: :: type(self).n += 1; return x * self.w * self.n :: top: n = 0 :: probe: type(net).n
counter_closure :: self.tick = make() :: return x * self.w * self.tick()
    def make():
        n = 0
        def tick():
            nonlocal n
            n += 1
            return n
        return tick
  probe: net.tick.__closure__[0].cell_contents
counter_default :: :: return x * self.w * tick() :: probe: tick.__defaults__
    def tick(n=[0]):
        n[0] += 1
        return n[0]
counter_itertools :: self.c = itertools.count(1) :: return x * self.w * next(self.c) :: probe: repr(net.c)
counter_buffer :: self.register_buffer('n', torch.zeros(())) :: self.n += 1; return x * self.w * self.n
counter_buffer_replaced :: :: self.n = self.n + 1; return x * self.w * self.n
  init: self.register_buffer('n', torch.zeros(()))
counter_tensor_attribute :: self.n = torch.zeros(()) :: self.n.add_(1); return x * self.w * self.n
  probe: net.n.clone()
counter_numpy :: self.n = np.zeros(1) :: self.n += 1; return x * self.w * float(self.n[0]) :: probe: net.n.copy()
counter_environ :: :: os.environ['N'] = str(int(os.environ.get('N', '0')) + 1); return x * self.w
  probe: os.environ['N']
counter_setattr :: self.n = 0 :: setattr(self, 'n', self.n + 1); return x * self.w :: probe: net.n
counter_dict :: self.n = 0 :: self.__dict__['n'] += 1; return x * self.w :: probe: net.n
counter_of_submodule :: self.sub = nn.Identity(); self.sub.n = 0 :: self.sub.n += 1; return x * self.w
  probe: net.sub.n
counter_module_file :: :: neighbour.N += 1; return x * self.w :: other: N = 0 :: probe: neighbour.N
list_appended :: self.a = [] :: self.a.append(1.0); return x * self.w * len(self.a) :: probe: net.a
list_of_tensors :: self.a = [] :: self.a.append(x * 1.0); return x * self.w :: probe: len(net.a), net.a[-1].sum()
deque_limited :: self.a = collections.deque(maxlen=3) :: self.a.append(float(len(self.a))); return x * self.w
  probe: list(net.a)
dict_written :: self.d = {} :: self.d[len(self.d)] = 1.0; return x * self.w :: probe: net.d
dict_of_tensors :: self.d = {} :: self.d['last'] = x * 2.0; return x * self.w :: probe: net.d['last']
set_added :: self.s = set() :: self.s.add(len(self.s)); return x * self.w :: probe: sorted(net.s)
defaultdict :: self.d = collections.defaultdict(int) :: self.d['a'] += 1; return x * self.w :: probe: dict(net.d)
defaultdict_read :: self.d = collections.defaultdict(list) :: len(self.d[1]) + 1 :: probe: dict(net.d)
counter_class :: self.d = collections.Counter() :: self.d.update(['a']); return x * self.w :: probe: dict(net.d)
popped :: self.a = [2.0, 3.0, 4.0, 5.0] :: return x * self.w * self.a.pop() :: probe: net.a
popped_hidden :: self.f = [2.0, 3.0, 4.0, 5.0].pop :: return x * self.w * self.f() :: probe: net.f.__self__
generator_advanced :: self.g = (2.0 + i for i in range(99)) :: return x * self.w * next(self.g)
generator_read :: self.g = iter([2.0, 3.0, 4.0, 5.0]) :: return x * self.w * next(self.g)
cycle :: self.g = itertools.cycle([2.0, 3.0]) :: return x * self.w * next(self.g)
bytes_io_read :: self.f = io.BytesIO(bytes(range(1, 99))) :: return x * self.w * self.f.read(1)[0]
  probe: net.f.tell()
queue :: self.q = queue.Queue() :: self.q.put(1); return x * self.w :: probe: net.q.qsize()
random :: :: return x * self.w * random.random() :: file: random.seed(0)
random_own :: self.r = random.Random(0) :: return x * self.w * self.r.random()
numpy_random :: :: return x * self.w * np.random.rand() :: file: np.random.seed(0)
numpy_generator :: self.r = np.random.default_rng(0) :: return x * self.w * self.r.random()
torch_random :: :: return x * self.w * torch.rand(4)
torch_generator :: self.g = torch.Generator().manual_seed(0) :: return x * self.w * torch.rand(4, generator=self.g)
cache_first :: self.c = None :: probe: net.c
  body:
    if self.c is None:
        self.c = x.sum()
        return x * self.w
    return x * self.w + self.c
lru_cache :: :: return x * self.w * f(1) :: probe: N, f.cache_info().hits
    N = [0]
    @functools.lru_cache
    def f(k):
        N[0] += 1
        return 2.0
last_kept :: self.last = None :: y = x * self.w; self.last = y.detach(); return y :: probe: net.last
last_shape :: self.shape = None :: self.shape = tuple(x.shape); return x * self.w :: probe: net.shape
moving_mean :: self.m = torch.zeros(4) :: self.m = 0.5 * self.m + 0.5 * x.mean(0); return x * self.w - self.m
  probe: net.m
toggled :: self.k = True :: self.k = not self.k; return x * self.w if self.k else x - self.w :: probe: net.k
mode_changed :: self.sub = nn.Identity() :: self.sub.train(not self.sub.training); return x * self.w
  probe: net.sub.training
method_replaced :: :: type(self).k = getattr(self, 'k', 1.0) * 2; return x * self.w :: probe: type(net).k
torch_setting :: :: torch.set_printoptions(precision=torch._tensor_str.PRINT_OPTS.precision + 1); return x * self.w
  probe: torch._tensor_str.PRINT_OPTS.precision
default_dtype :: :: y = x * self.w * torch.ones(4); torch.set_default_dtype(torch.float64); return y
  probe: str(torch.get_default_dtype())
warning_once :: :: warnings.warn('own'); return x * self.w :: probe: len(LOG)
    LOG = []
    warnings.showwarning = lambda *a, **k: LOG.append(1)
printed :: :: print('a', end=''); return x * self.w :: probe: len(sys.stdout.getvalue())
  file: sys.stdout = io.StringIO()
argument_list :: :: args[1].append(1.0); return args[0] * self.w * len(args[1]) :: args: (torch.ones(3, 4), SHARED)
  file: SHARED = []
  probe: len(SHARED)
argument_tensor :: :: x.mul_(2.0); return x * self.w
threshold_reached :: self.n = 0 :: self.n += 1; return x * self.w if self.n < 2 else x - self.w :: probe: net.n
object_made :: self.made = [] :: self.made.append(Box(len(self.made))); return x * self.w * (self.made[-1].v + 1)
  probe: [b.v for b in net.made]
weak_set :: :: self.keep.append(Box()); self.s.add(self.keep[-1]); return x * self.w
  probe: len(net.s)
  init: self.s, self.keep = weakref.WeakSet(), []
array_grown :: self.a = array.array('d') :: self.a.append(1.0); return x * self.w * len(self.a) :: probe: len(net.a)
bytearray :: self.a = bytearray() :: self.a.append(1); return x * self.w :: probe: len(net.a)

[alias]
list_shared :: self.a = SHARED :: sum(self.a) :: SHARED.append(1.0) :: SHARED.pop() :: file: SHARED = [2.0]
two_attributes :: self.a = [2.0]; self.b = self.a :: self.b[0] :: net.a[0] = 3.0
unlinked :: self.a = [2.0]; self.b = self.a :: self.b[0] :: net.a = [9.0]; net.b[0] = 3.0
parent_holds_child :: self.sub = Child(self); self.k = 2.0 :: self.sub() :: net.k = 3.0
    class Child(nn.Module):
        def __init__(self, parent):
            super().__init__()
            self.parent = [parent]
        def forward(self):
            return self.parent[0].k
tensor_view :: self.v = BASE[0] :: self.v :: BASE.fill_(3.0) :: file: BASE = torch.full((2, 4), 2.0)
numpy_of_tensor :: self.v = torch.full((4,), 2.0); self.n = self.v.numpy() :: self.v :: net.n.fill(3.0)
tensor_from_bytearray :: :: self.v :: net.raw[:] = np.full(4, 3.0, np.float32).tobytes()
  init:
    self.raw = bytearray(np.full(4, 2.0, np.float32).tobytes())
    self.v = torch.frombuffer(self.raw, dtype=torch.float32)
bound_method_of_other :: self.f = OTHER.get :: self.f() :: OTHER.v = 3.0
    Box.get = lambda self: self.v
    OTHER = Box()
dict_of_object :: self.d = OTHER.__dict__ :: self.d['v'] :: OTHER.v = 3.0 :: file: OTHER = Box()
vars_of_module :: self.d = neighbour.__dict__ :: self.d['K'] :: neighbour.K = 3.0 :: other: K = 2.0
globals_held :: self.d = globals() :: self.d['K'] :: global K; K = 3.0 :: file: K = 2.0
dict_of_class :: self.d = vars(Kind) :: self.d['k'] :: Kind.k = 3.0
    class Kind:
        k = 2.0
registry_by_name :: self.name = 'a' :: REGISTRY[self.name].v :: REGISTRY['a'].v = 3.0
  file: REGISTRY = dict(a=Box())
singleton :: :: Single.get().v :: Single.get().v = 3.0
    class Single:
        one = None
        @classmethod
        def get(cls):
            if cls.one is None:
                cls.one = Box()
            return cls.one
gc_referrers :: self.o = Box() :: [o for o in gc.get_objects() if type(o) is Box][0].v :: net.o.v = 3.0
weak_back_reference :: :: self.sub.up().k :: net.k = 3.0
  init: self.sub = nn.Identity(); self.sub.up = weakref.ref(self); self.k = 2.0
"""
PLACES = ("init", "read", "change", "undo")
NAMED = re.compile(r"(file|top|init|read|body|change|undo|probe|bases|other|args):(?: (.*))?$")


def parsed_snippets() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in SNIPPETS_TEXT.strip("\n").splitlines():
        if line.startswith("<"):
            name = line
            found[name] = ""
        else:
            found[name] += line[4:] + "\n"
    return found


def parsed_head(line: str) -> tuple[str, dict[str, str]]:
    name, *slots = (slot.strip() for slot in re.split(r" ::(?= |$)", line))
    parts: dict[str, str] = {}
    for place, slot in enumerate(slots):
        named = NAMED.match(slot)
        part, code = (named[1], named[2]) if named else (PLACES[place], slot)
        is_body = part == "read" and re.search(r"(^|; )return ", code)
        if code:
            parts["body" if is_body else part] = code
    return name, parts


def add_cases_of_text() -> None:
    snippets = parsed_snippets()
    group, name, part = "", "", ""
    found: dict[str, dict[str, str]] = {}
    for line in CASES_TEXT.strip("\n").splitlines():
        if line.startswith("["):
            group = line.strip("[]")
        elif line.startswith("    "):
            found[name][part] = found[name].get(part, "") + snippets.get(line.strip(), line[4:] + "\n")
        elif named := NAMED.match(line.strip()) if line.startswith("  ") else None:
            part = named[1]
            found[name][part] = f"{named[2]}\n" if named[2] else ""
        elif line:
            name, parts = parsed_head(line)
            name, part = f"{group}/{name}", "file"
            assert name not in found, name
            found[name] = parts
    for name, parts in found.items():
        add(name, **parts)


add_special_methods()
add_held_values()
add_layers()
add_cases_of_text()
