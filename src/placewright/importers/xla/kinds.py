"""The kind of op of every instruction in XLA's dialects.

Sources: XLA's operation semantics, the StableHLO specification, CHLO, and the primitives of jax.lax.
"""

from __future__ import annotations

from collections.abc import Mapping

_OPCODES: Mapping[str, str] = {
    "elementwise": """
        abs acos acosh add add-any and asin asinh atan atan2 atanh bessel-i0e bessel-i1e bessel-i1e cbrt ceil ceiling
        clamp clz compare complex conj conjugate constant-mul cos cosh cosine count-leading-zeros cummax cummin cumprod
        cumsum cumlogsumexp digamma div divide eq eq-to erf erf-inv erfc exp exp2 expm1 exponential
        exponential-minus-one floor ge ge-to gt gt-to igamma igamma-grad-a igammac imag integer-pow is-finite is-inf
        is-nan is-neg-inf is-pos-inf le le-to lgamma log log-plus-one log1p logistic lt lt-to map max maximum min
        minimum mul mulhi multiply ne ne-to neg negate next-after nextafter not or polygamma popcnt population-count pow
        power real reduce-precision regularized-incomplete-beta rem remainder round round-nearest-afz
        round-nearest-even rsqrt select select-n shift-left shift-right-arithmetic shift-right-logical sign sin sine
        sinh sqrt square stochastic-convert sub subtract tan tanh uniform-dequantize uniform-quantize xor zeta""",
    "view": """
        bitcast bitcast-convert bitcast-convert-type broadcast broadcast-in-dim domain expand-dims layout-constraint
        reshape squeeze transpose get-dimension-size set-dimension-size""",
    "copy": """
        all-gather-copy concatenate convert convert-element-type copy copy-start pad rev reverse slice split tile
        real-dynamic-slice dynamic-pad""",
    "matmul": "dot dot-general ragged-dot ragged-dot-general scaled-dot",
    "conv": "convolution conv-general-dilated dynamic-conv",
    "reduction": """
        argmax argmin reduce reduce-and reduce-max reduce-min reduce-or reduce-prod reduce-sum reduce-xor""",
    "pooling": """
        reduce-window reduce-window-max reduce-window-min reduce-window-sum select-and-gather-add""",
    "pooling_backward": "select-and-scatter select-and-scatter-add",
    "gather": """
        dynamic-gather dynamic-slice dynamic-update-slice gather scatter scatter-add scatter-max scatter-min scatter-mul
        scatter-sub torch-index-select""",
    "sort": "approx-top-k sort top-k topk",
    "fill": "create-token empty empty2 iota dynamic-iota after-all axis-index partition-id replica-id",
    "random": """
        random-bits random-clone random-fold-in random-gamma random-gamma-grad random-seed random-split rng
        rng-bit-generator rng-get-and-update-state rng-uniform threefry2x32""",
}
KIND_OF_OPCODE: Mapping[str, str] = {opcode: kind for kind, opcodes in _OPCODES.items() for opcode in opcodes.split()}

#: The cost model's names of element-by-element functions that the dialects spell otherwise.
_FUNCTIONS_BY_OPCODE = """
    divide:div exponential:exp exponential-minus-one:expm1 log-plus-one:log1p logistic:sigmoid sine:sin
    cosine:cos power:pow rem:remainder add-any:add subtract:sub multiply:mul square:mul maximum:max minimum:min
    negate:neg select-n:select erf-inv:erfinv asinh:asin acosh:acos atanh:atan sinh:sin cosh:cos integer-pow:mul
"""
_FUNCTIONS = dict(pair.split(":") for pair in _FUNCTIONS_BY_OPCODE.split())
#: Functions that join two elements, mapped to the reduction.
_REDUCTIONS = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "product",
    "mul": "product",
    "prod": "product",
}
#: Kinds whose results, if made of constants alone, XLA folds or computes again wherever they are read.
FOLDED_KINDS = frozenset({"elementwise", "view", "copy", "fill", "reduction", "gather"})
#: Kinds that drop all operands made of constants; other kinds drop only scalars, and their arrays must exist.
DROPS_FOLDED = frozenset({"elementwise", "control_flow"})
#: Opcodes that read no more of their first operand than they return.
SLICING_OPCODES = frozenset({"slice", "dynamic-slice", "gather", "split", "real-dynamic-slice"})
#: Opcodes that return their first operand with a part of it changed.
UPDATING_OPCODES = frozenset(
    {"dynamic-update-slice", "scatter", *(f"scatter-{name}" for name in ("add", "max", "min", "mul", "sub"))}
)
#: Views that move data once layouts are assigned; XLA has made bitcasts of the others.
MOVING_VIEWS = frozenset({"transpose", "reshape", "broadcast", "broadcast-in-dim"})
#: Opcodes that communicate with other partitions of the same program.
_COLLECTIVES = """
    all-gather all-reduce all-to-all collective-broadcast collective-permute ragged-all-to-all reduce-scatter psum
    psum-invariant ppermute pmax pmin pbroadcast all-gather-invariant all-gather-reduced unreduced-psum
    unreduced-reduce-scatter
"""
COLLECTIVES = frozenset(_COLLECTIVES.split())
#: Targets of custom calls between whole arrays and one device's parts of them.
SHARD_MARKS: Mapping[str, str] = {
    **dict.fromkeys(("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"), "to-parts"),
    **dict.fromkeys(("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape"), "to-wholes"),
}


def function_of(opcode: str) -> str:
    """The cost model's name of an element-by-element function."""
    return _FUNCTIONS.get(opcode, opcode.replace("-", "_"))


def reduction_of(joining: str) -> str:
    """The cost model's name of the reduction that joins elements by this function."""
    return _REDUCTIONS.get(joining, joining.replace("-", "_"))
