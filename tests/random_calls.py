"""Random calls of ATen's ops: by their schemas, or by what PyTorch's reference says of their arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

#: An op, its arguments by position, and the others by name.
Drawn = Any

SIZES = (1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 6)


class Draw:
    """Shapes, tensors and options of one call."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = self.random.choices((torch.float64, torch.float32), (3, 1))[0]

    def size(self) -> int:
        return self.random.choice(SIZES)

    def shape(self, fewest: int = 1, most: int = 4) -> list[int]:
        # Axes of the same length are those that are taken for one another.
        rank = self.random.randint(fewest, most)
        return [self.size()] * rank if self.random.random() < 0.15 else [self.size() for _ in range(rank)]

    def some(self, probability: float = 0.5) -> bool:
        return self.random.random() < probability

    def of(self, *options: Any) -> Any:
        return self.random.choice(options)

    def axis(self, rank: int) -> int:
        """One of them, counted from either end."""
        return self.random.randrange(-rank, rank)

    def axes(self, rank: int, fewest: int = 1) -> list[int]:
        drawn = self.random.sample(range(rank), self.random.randint(min(fewest, rank), rank))
        return [axis - rank if self.some(0.3) else axis for axis in drawn]

    def tensor(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor of normal values, laid out in one way or another."""
        dtype = self.dtype if dtype is None else dtype
        return self.laid_out(torch.randn(shape, generator=self.generator, dtype=dtype))

    def positive(self, *shape: int) -> torch.Tensor:
        return self.laid_out(torch.rand(shape, generator=self.generator, dtype=self.dtype) * 0.9 + 0.05)

    def below(self, high: int, *shape: int) -> torch.Tensor:
        return self.laid_out(torch.randint(high, shape, generator=self.generator))

    def mask(self, *shape: int) -> torch.Tensor:
        return self.laid_out(torch.rand(shape, generator=self.generator) < 0.6)

    def laid_out(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same values in a tensor that may have gaps, other strides or an offset."""
        if not tensor.dim() or self.some(0.6):
            return tensor
        way = self.random.randrange(3)
        if way == 0:
            order = self.random.sample(range(tensor.dim()), tensor.dim())
            back = [order.index(axis) for axis in range(tensor.dim())]
            return tensor.permute(order).contiguous().permute(back)
        axis, length = self.random.randrange(tensor.dim()), tensor.shape
        if way == 1:
            wider = tensor.repeat_interleave(2, axis)
            return wider[(slice(None),) * axis + (slice(None, None, 2),)]
        return torch.cat([tensor, tensor], axis).narrow(axis, length[axis], length[axis])

    def broadcast(self, shape: Sequence[int]) -> list[int]:
        """A shape that fits another: axes of length 1, or none."""
        fits = [1 if self.some(0.2) else size for size in shape]
        return fits[self.random.randint(0, len(fits)) :] if self.some(0.3) else fits

    def order(self, rank: int) -> list[int]:
        return [axis - rank if self.some(0.2) else axis for axis in self.random.sample(range(rank), rank)]


#: Of each sort, a function that draws a call.
SORTS: dict[str, Callable[[Draw], Drawn]] = {}


def sort(function: Callable[[Draw], Drawn]) -> Callable[[Draw], Drawn]:
    SORTS[function.__name__] = function
    return function


def _call(op: Any, *args: Any, **kwargs: Any) -> Drawn:
    return op, args, kwargs


def pointwise_ops() -> list[Any]:
    """The ops that PyTorch tags as pointwise, but those that write into an argument."""
    names = (getattr(aten, name) for name in sorted(dir(aten)))
    ops = (getattr(each, overload) for each in names if hasattr(each, "overloads") for overload in each.overloads())
    return [
        op
        for op in ops
        if torch.Tag.pointwise in op.tags
        and not op._schema.is_mutable
        and not any(returned.alias_info for returned in op._schema.returns)
    ]


POINTWISE = pointwise_ops()


@sort
def pointwise(draw: Draw) -> Drawn:
    return of_schema(draw, draw.random.choice(POINTWISE))


#: Backwards and others that are computed value by value, whether tagged or not.
_VALUE_BY_VALUE = """
add.Tensor sub.Tensor mul.Tensor div.Tensor pow.Tensor_Scalar pow.Tensor_Tensor where.self exp log rsqrt neg tanh
tanh_backward sigmoid sigmoid_backward relu threshold_backward gelu gelu_backward silu silu_backward leaky_relu
leaky_relu_backward elu elu_backward hardtanh hardtanh_backward hardswish hardswish_backward hardsigmoid
hardsigmoid_backward softplus softplus_backward mish mish_backward log_sigmoid_forward log_sigmoid_backward hardshrink
hardshrink_backward softshrink softshrink_backward masked_fill.Scalar masked_fill.Tensor addcmul addcdiv lerp.Scalar
lerp.Tensor clamp clamp.Tensor clamp_min maximum minimum eq.Tensor eq.Scalar ne.Scalar lt.Tensor le.Tensor gt.Scalar
ge.Scalar logical_and logical_not bitwise_not bitwise_and.Tensor abs sign sgn sqrt reciprocal cos sin erf log1p expm1
floor ceil round trunc remainder.Scalar fmod.Scalar isnan isinf native_dropout_backward rsub.Scalar square sub.Scalar
add.Scalar mul.Scalar div.Scalar where.ScalarSelf where.ScalarOther where.Scalar xlogy.Tensor logit logit_backward
"""
VALUE_BY_VALUE = _VALUE_BY_VALUE.split()


def by_name(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


@sort
def value_by_value(draw: Draw) -> Drawn:
    return of_schema(draw, by_name(VALUE_BY_VALUE[draw.seed % len(VALUE_BY_VALUE)]))


def of_schema(draw: Draw, op: Any) -> Drawn:
    """A call of an op that is computed value by value: tensors of shapes that fit each other, drawn options."""
    shape = draw.shape(0, 4)
    integers = any(word in op.name() for word in ("bitwise", "shift", "gcd", "lcm", "__xor", "__and", "__or"))
    first, args, kwargs = True, [], {}
    fixed = "backward" in op.name()
    for argument in op._schema.arguments:
        kind, value = str(argument.type), argument.default_value
        if kind in ("Tensor", "Optional[Tensor]"):
            fits = shape if first or fixed else draw.broadcast(shape)
            if "masked_fill" in op.name() and argument.name == "value":
                fits = []
            if argument.name in ("mask", "condition"):
                value = draw.mask(*fits)
            elif integers:
                value = draw.below(5, *fits)
            elif argument.name == "buffer":
                value = draw.positive(*fits)
            else:
                value = draw.positive(*fits) if draw.some(0.3) else draw.tensor(*fits)
            first = False
            if kind != "Tensor" and argument.name == "max" and draw.some(0.3):
                value = None
        elif kind == "number":
            value = draw.of(2, 3) if integers else draw.of(1, 2, 0.5) if value is None or draw.some() else value
        elif kind in ("float", "Optional[float]"):
            value = draw.of(0.1, 0.25) if value is None else value
        elif kind in ("Optional[number]",):
            value = draw.of(0.25, 1) if argument.name == "min" or draw.some() else None
        elif kind == "int":
            value = draw.of(1, 2)
        elif kind == "bool":
            value = draw.some()
        elif kind == "str":
            value = draw.of("none", "tanh") if argument.name == "approximate" else value
        elif kind == "Optional[str]":
            value = draw.of(None, "floor", "trunc") if argument.name == "rounding_mode" else None
        elif kind == "Optional[MemoryFormat]":
            value = None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return _call(op, *args, **kwargs)


@sort
def same_shape(draw: Draw) -> Drawn:
    x = draw.tensor(*draw.shape(0))
    shape = list(x.shape)
    return draw.of(
        lambda: _call(aten.clone.default, x, memory_format=draw.of(None, torch.contiguous_format)),
        lambda: _call(aten._to_copy.default, x, dtype=draw.of(torch.float32, torch.float64, torch.int64, torch.bool)),
        lambda: _call(aten.alias.default, x),
        lambda: _call(aten.detach.default, x),
        lambda: _call(aten.zeros_like.default, x),
        lambda: _call(aten.ones_like.default, x),
        lambda: _call(aten.full_like.default, x, 2.5),
        lambda: _call(aten.new_zeros.default, x, draw.of(shape, draw.shape())),
        lambda: _call(aten.new_full.default, x, draw.of(shape, draw.shape()), 3.0),
        lambda: _call(aten.copy.default, x, draw.tensor(*draw.broadcast(shape))),
        lambda: _call(aten.full.default, shape, 1.5),
        lambda: _call(aten.zeros.default, shape),
        lambda: _call(aten.arange.default, draw.size()),
        lambda: _call(aten.fill.Scalar, x, 0.5),
        lambda: _call(aten.add.Tensor, x, x),
        lambda: _call(aten.mul.Tensor, x, x),
    )()


def merged(draw: Draw, shape: Sequence[int]) -> list[int]:
    """Another shape of as many values."""
    if draw.some(0.3):
        count = 1
        for size in shape:
            count *= size
        found = []
        while count > 1:
            divisor = draw.random.choice([each for each in range(2, count + 1) if count % each == 0])
            found.append(divisor)
            count //= divisor
        shape = found
    else:
        shape = list(shape)
        for _ in range(draw.random.randint(1, 2)):
            way = draw.random.randrange(4)
            if way == 0 and len(shape) > 1:
                at = draw.random.randrange(len(shape) - 1)
                shape[at : at + 2] = [shape[at] * shape[at + 1]]
            elif way == 1 and shape:
                at = draw.random.randrange(len(shape))
                divisor = draw.random.choice([each for each in range(1, shape[at] + 1) if shape[at] % each == 0])
                shape[at : at + 1] = [divisor, shape[at] // divisor]
            elif way == 2:
                shape.insert(draw.random.randint(0, len(shape)), 1)
            elif 1 in shape:
                shape.remove(1)
    if shape and draw.some(0.15):
        shape = list(shape)
        shape[draw.random.randrange(len(shape))] = -1
    return list(shape)


@sort
def views(draw: Draw) -> Drawn:
    x = draw.tensor(*draw.shape(0 if draw.some(0.1) else 1, 4))
    shape, rank = list(x.shape), x.dim()
    plain = x.contiguous()

    def reshaped() -> Drawn:
        op = draw.of(aten.view.default, aten.view.default, aten._unsafe_view.default, aten.reshape.default)
        return _call(op, plain, merged(draw, shape))

    def expanded() -> Drawn:
        narrow = draw.tensor(*[1 if draw.some(0.4) else size for size in shape])
        wide = [
            size if short == 1 or draw.some() else draw.of(size, -1)
            for short, size in zip(narrow.shape, shape, strict=False)
        ]
        return _call(aten.expand.default, narrow, [*draw.shape(0, 2), *wide] if draw.some(0.4) else wide)

    def shortened() -> Drawn:
        ones = draw.tensor(*[1 if draw.some(0.4) else size for size in shape])
        return draw.of(
            lambda: _call(aten.squeeze.default, ones),
            lambda: _call(aten.squeeze.dim, ones, draw.axis(rank)),
            lambda: _call(aten.squeeze.dims, ones, draw.axes(rank)),
        )()

    def restrided() -> Drawn:
        """Strides of axes of one are free; others may show the tensor transposed."""
        size = [extent if draw.some(0.6) else 1 for extent in shape]
        stride = [
            step if extent > 1 else draw.of(1, 7, step) for extent, step in zip(size, plain.stride(), strict=True)
        ]
        order = draw.order(rank) if draw.some(0.2) else list(range(rank))
        given = draw.of(draw.tensor(*size), plain)
        places = [0] if draw.some(0.2) else []
        packed = list(given.stride()) if given is not plain and draw.some(0.7) else stride
        steps = [step if extent > 1 else draw.of(1, 7) for extent, step in zip(size, packed, strict=True)]
        fits = sum((extent - 1) * step for extent, step in zip(size, steps, strict=True)) < given.numel()
        return _call(
            aten.as_strided.default,
            given if fits else plain,
            [size[axis] for axis in order],
            [(steps if fits else stride)[axis] for axis in order],
            *places,
        )

    if not rank:
        return draw.of(reshaped, lambda: _call(aten.unsqueeze.default, x, draw.of(0, -1)))()
    return draw.of(
        reshaped,
        reshaped,
        reshaped,
        expanded,
        expanded,
        restrided,
        restrided,
        shortened,
        shortened,
        lambda: _call(aten.permute.default, x, draw.order(rank)),
        lambda: _call(aten.permute.default, x, draw.order(rank)),
        lambda: _call(aten.transpose.int, x, draw.axis(rank), draw.axis(rank)),
        lambda: _call(aten.t.default, x if rank <= 2 else draw.tensor(draw.size(), draw.size())),
        lambda: _call(aten.unsqueeze.default, x, draw.random.randrange(-rank - 1, rank + 1)),
        lambda: _call(aten.repeat.default, x, [draw.of(1, 1, 2) for _ in range(rank + draw.of(0, 0, 1))]),
        lambda: _call(aten.movedim.int, x, draw.axis(rank), draw.axis(rank)),
        lambda: _call(aten.diagonal.default, x, draw.of(0, 1, -1), 0, -1) if rank > 1 else reshaped(),
        lambda: _call(
            aten.unfold.default, x, axis := draw.axis(rank), draw.random.randint(1, shape[axis]), draw.of(1, 2)
        ),
    )()


@sort
def slices(draw: Draw) -> Drawn:
    x = draw.tensor(*draw.shape())
    shape, rank = list(x.shape), x.dim()
    axis = draw.axis(rank)
    size = shape[axis]
    start = draw.of(0, 0, 0, None, draw.random.randrange(size), -draw.random.randint(1, size))
    end = draw.of(size, size, None, 2**63 - 1, draw.random.randint(1, size), -1)
    step = draw.of(1, 1, 1, 2)
    bounds = (axis, start, end, step)
    drawn: list[Any] = [
        lambda: _call(aten.slice.Tensor, x, *bounds),
        lambda: _call(aten.slice.Tensor, x, *bounds),
        lambda: _call(aten.select.int, x, axis, draw.random.randrange(-size, size)),
        lambda: _call(
            aten.slice_backward.default,
            x[(slice(None),) * (axis % rank) + (slice(start, end, step),)],
            shape,
            axis,
            0 if start is None else start,
            size if end is None else end,
            step,
        ),
        lambda: _call(aten.slice_scatter.default, x, torch.zeros_like(aten.slice.Tensor(x, *bounds)), *bounds),
        lambda: _call(aten.select_scatter.default, x, x.select(axis, 0) * 2, axis, draw.random.randrange(size)),
        lambda: _call(aten.select_backward.default, x.select(axis, 0), shape, axis, draw.random.randrange(size)),
        lambda: _call(aten.split.Tensor, x, draw.random.randint(1, size), axis),
        lambda: _call(aten.split_with_sizes.default, x, parted(draw, size), axis),
        lambda: _call(aten.unbind.int, x, axis),
        lambda: _call(aten.narrow.default, x, axis, 0, size),
        lambda: _call(aten.flip.default, x, draw.axes(rank)),
        lambda: _call(aten.roll.default, x, [1], [axis]),
        lambda: _call(aten.roll.default, x, [2], []),
        lambda: _call(aten.chunk.default, x, draw.of(1, 2, 3), axis),
    ]
    return draw.random.choice(drawn)()


def parted(draw: Draw, size: int) -> list[int]:
    cut = draw.random.randint(0, size)
    return [each for each in (cut, size - cut) if each]


@sort
def joins(draw: Draw) -> Drawn:
    shape = draw.shape()
    rank = len(shape)
    axis = draw.axis(rank)
    others = [
        [draw.size() if at == axis % rank else size for at, size in enumerate(shape)] for _ in range(draw.of(1, 2))
    ]
    tensors = [draw.tensor(*each) for each in (shape, *others)]
    same = [draw.tensor(*shape) for _ in range(draw.of(1, 2, 3))]
    pads = [draw.of(0, 0, 0, 1, 2, -1 if min(shape) > 2 else 0) for _ in range(2 * draw.random.randint(1, rank))]
    return draw.of(
        lambda: _call(aten.cat.default, tensors, axis),
        lambda: _call(aten.cat.default, tensors, axis),
        lambda: _call(aten.cat.default, [tensors[0], tensors[0]], axis),
        lambda: _call(aten.stack.default, same, draw.random.randrange(-rank - 1, rank + 1)),
        lambda: _call(aten.constant_pad_nd.default, tensors[0], pads, draw.of(0.0, 1.5)),
        lambda: _call(aten.constant_pad_nd.default, tensors[0], pads),
    )()


@sort
def reductions(draw: Draw) -> Drawn:
    integral = draw.some(0.15)
    shape = draw.shape(0 if draw.some(0.1) else 1)
    x = draw.below(5, *shape) if integral else draw.tensor(*shape)
    rank, keep = len(shape), draw.some()
    real = x.to(draw.dtype)
    if not rank:
        return _call(draw.of(aten.sum.default, aten.amax.default), x)
    dims = draw.of([], draw.axes(rank), draw.axes(rank))
    axis = draw.axis(rank)
    return draw.of(
        lambda: _call(aten.sum.dim_IntList, x, draw.of(dims, None), keep),
        lambda: _call(aten.sum.dim_IntList, x, dims, keep, dtype=draw.of(None, torch.float64)),
        lambda: _call(aten.sum.default, real),
        lambda: _call(aten.sum.default, real),
        lambda: _call(aten.mean.dim, real, draw.of(dims, None), keep),
        lambda: _call(aten.mean.default, real),
        lambda: _call(aten.amax.default, x, dims, keep),
        lambda: _call(aten.amin.default, x, dims, keep),
        lambda: _call(aten.var.correction, real, dims, correction=draw.of(0, 1), keepdim=keep),
        lambda: _call(aten.var_mean.correction, real, dims, correction=draw.of(0, 1), keepdim=keep),
        lambda: _call(aten.std.correction, real, dims, correction=0, keepdim=keep),
        lambda: _call(aten.logsumexp.default, real, draw.axes(rank), keep),
        lambda: _call(aten.linalg_vector_norm.default, real, draw.of(1, 2, 3.0), draw.of(None, dims), keep),
        lambda: _call(aten.prod.dim_int, real, axis, keep),
        lambda: _call(aten.prod.default, real),
        lambda: _call(aten.any.dim, x, axis, keep),
        lambda: _call(aten.all.dim, x, axis, keep),
        lambda: _call(aten.any.default, x),
        lambda: _call(aten.all.default, x),
        lambda: _call(aten.max.dim, x, axis, keep),
        lambda: _call(aten.min.dim, x, axis, keep),
        lambda: _call(aten.max.default, x),
        lambda: _call(aten.argmax.default, x, draw.of(axis, None), keep),
        lambda: _call(aten.argmin.default, x, draw.of(axis, None), keep),
        lambda: _call(aten.norm.ScalarOpt_dim, real, 2, [axis], keep),
        lambda: _call(aten.nansum.default, real, dims, keep),
        lambda: _call(aten.count_nonzero.dim_IntList, x, [axis]),
        lambda: _call(aten.median.dim, real, axis, keep),
        lambda: _call(aten.sum_to_size.default, real, draw.broadcast(shape)),
    )()


@sort
def along_an_axis(draw: Draw) -> Drawn:
    x = draw.tensor(*draw.shape())
    axis = draw.axis(x.dim())
    index = draw.below(x.shape[axis], *x.shape)
    return draw.of(
        lambda: _call(aten.cumsum.default, x, axis),
        lambda: _call(aten.cumprod.default, x, axis),
        lambda: _call(aten.logcumsumexp.default, x, axis),
        lambda: _call(aten.cummax.default, x, axis),
        lambda: _call(aten.sort.default, x, axis),
        lambda: _call(aten.sort.stable, x, stable=True, dim=axis),
        lambda: _call(aten.argsort.default, x, axis),
        lambda: _call(aten.topk.default, x, draw.random.randint(1, x.shape[axis]), axis),
        lambda: _call(aten.kthvalue.default, x, 1, axis),
        lambda: _call(aten.glu.default, torch.cat([x, x * 2], axis), axis),
        lambda: _call(aten.glu_backward.default, x, torch.cat([x, x * 2], axis), axis),
        lambda: _call(
            aten.value_selecting_reduction_backward.default,
            x.select(axis, 0),
            axis,
            index.select(axis, 0),
            list(x.shape),
            False,
        ),
        lambda: _call(aten.tril.default, x if x.dim() > 1 else x[None], draw.of(-1, 0, 1)),
        lambda: _call(aten.triu.default, x if x.dim() > 1 else x[None], draw.of(-1, 0, 1)),
    )()


@sort
def softmaxes(draw: Draw) -> Drawn:
    x = draw.tensor(*draw.shape(0 if draw.some(0.1) else 1))
    axis = draw.axis(x.dim()) if x.dim() else 0
    grad = draw.tensor(*x.shape)
    return draw.of(
        lambda: _call(aten._softmax.default, x, axis, False),
        lambda: _call(aten._log_softmax.default, x, axis, False),
        lambda: _call(aten._softmax_backward_data.default, grad, x.softmax(axis), axis, x.dtype),
        lambda: _call(aten._log_softmax_backward_data.default, grad, x.log_softmax(axis), axis, x.dtype),
        lambda: _call(aten._safe_softmax.default, x, axis),
    )()


@sort
def products(draw: Draw) -> Drawn:
    n, k, m, b = draw.size(), draw.size(), draw.size(), draw.size()
    if draw.some(0.15):
        n = k = m = b
    left, right = draw.tensor(n, k), draw.tensor(k, m)
    factors = {"beta": draw.of(1, 0, 0.5, 2), "alpha": draw.of(1, 0.5, 2)} if draw.some(0.4) else {}
    square = draw.tensor(n, n)
    return draw.of(
        lambda: _call(aten.mm.default, left, right),
        lambda: _call(aten.mm.default, left, left.t()),
        lambda: _call(aten.mm.default, square, square),
        lambda: _call(aten.bmm.default, draw.tensor(b, n, k), draw.tensor(b, k, m)),
        lambda: _call(aten.bmm.default, draw.tensor(b, n, k), draw.tensor(b, k, m)),
        lambda: _call(aten.addmm.default, draw.tensor(*draw.broadcast([n, m])), left, right, **factors),
        lambda: _call(aten.addmm.default, draw.tensor(*draw.of([m], [1], [], [n, m], [n, 1])), left, right, **factors),
        lambda: _call(
            aten.baddbmm.default,
            draw.tensor(*draw.broadcast([b, n, m])),
            draw.tensor(b, n, k),
            draw.tensor(b, k, m),
            **factors,
        ),
        lambda: _call(aten.mv.default, left, draw.tensor(k)),
        lambda: _call(aten.addmv.default, draw.tensor(*draw.of([n], [1], [])), left, draw.tensor(k), **factors),
        lambda: _call(aten.dot.default, draw.tensor(k), draw.tensor(k)),
        lambda: _call(aten.addbmm.default, draw.tensor(n, m), draw.tensor(b, n, k), draw.tensor(b, k, m)),
        lambda: _call(
            aten.linear.default, draw.tensor(*draw.shape(0, 2), k), draw.tensor(m, k), draw.of(None, draw.tensor(m))
        ),
        lambda: _call(aten.matmul.default, draw.tensor(*draw.shape(0, 2), n, k), right),
        lambda: _call(aten.outer.default, draw.tensor(n), draw.tensor(m)),
        lambda: _call(aten.addr.default, draw.tensor(n, m), draw.tensor(n), draw.tensor(m), **factors),
        lambda: _call(aten._cdist_forward.default, draw.tensor(b, n, k), draw.tensor(b, m, k), 2.0, None),
    )()


@sort
def embeddings(draw: Draw) -> Drawn:
    rows, width = draw.size(), draw.size()
    indices = draw.below(rows, *draw.shape(0, 3))
    padding = draw.of(-1, -1, 0, rows - 1)
    grad = draw.tensor(*indices.shape, width)
    return draw.of(
        lambda: _call(aten.embedding.default, draw.tensor(rows, width), indices),
        lambda: _call(aten.embedding.default, draw.tensor(rows, width), indices, padding, draw.some(), False),
        lambda: _call(aten.embedding_dense_backward.default, grad, indices, rows, padding, draw.some(0.4)),
        lambda: _call(aten.embedding_dense_backward.default, grad, indices, rows, padding, False),
        lambda: _call(
            aten._embedding_bag.default,
            draw.tensor(rows, width),
            draw.below(rows, 6),
            torch.tensor([0, 2, 3]),
            False,
            draw.of(0, 1),
        ),
    )()


@sort
def gathers(draw: Draw) -> Drawn:
    shape = draw.shape()
    rank, axis = len(shape), draw.axis(len(shape))
    x = draw.tensor(*shape)
    # The index of a gather may be shorter along other axes, too.
    shorter = [
        draw.size() if at == axis % rank else draw.random.randint(1, size) if draw.some(0.4) else size
        for at, size in enumerate(shape)
    ]
    index = draw.below(shape[axis], *shorter)
    source = draw.tensor(*shorter)
    line = draw.below(shape[axis], draw.size())
    along = [len(line) if at == axis % rank else size for at, size in enumerate(shape)]
    several = [draw.below(size, *(1 if draw.some(0.3) else 4, 3)) for size in shape[: draw.random.randint(1, rank)]]
    advanced = [each if draw.some(0.7) else None for each in several]
    if not any(each is not None for each in advanced):
        advanced = list(several)
    taken = aten.index.Tensor(x, advanced)
    values = draw.tensor(*draw.of(taken.shape, [])) if draw.some() else draw.tensor(*taken.shape)
    return draw.of(
        lambda: _call(aten.gather.default, x, axis, index),
        lambda: _call(aten.gather.default, x, axis, index),
        lambda: _call(aten.gather_backward.default, source, x, axis, index, False),
        lambda: _call(aten.scatter_add.default, x, axis, index, source),
        lambda: _call(aten.scatter.src, x, axis, index % 1, source),
        lambda: _call(aten.scatter.value, x, axis, index, 2.0),
        lambda: _call(aten.scatter_reduce.two, x, axis, index, source, draw.of("sum", "mean", "amax")),
        lambda: _call(aten.index_select.default, x, axis, line),
        lambda: _call(aten.index_select.default, x, axis, line),
        lambda: _call(aten.index_select_backward.default, draw.tensor(*along), list(shape), axis, line),
        lambda: _call(aten.index_add.default, x, axis, line, draw.tensor(*along)),
        lambda: _call(aten.index_fill.int_Scalar, x, axis, line, 2.0),
        lambda: _call(aten.index.Tensor, x, advanced),
        lambda: _call(aten.index.Tensor, x, advanced),
        lambda: _call(aten.index_put.default, x, advanced, values, True),
        lambda: _call(aten._unsafe_index.Tensor, x, advanced),
        lambda: _call(aten._unsafe_index_put.default, x, advanced, values, True),
        lambda: _call(aten.masked_scatter.default, x, draw.mask(*shape), draw.tensor(*shape)),
        lambda: _call(aten.take.default, x, draw.below(x.numel(), *draw.shape(1, 2))),
        lambda: _call(aten.one_hot.default, draw.below(shape[axis], *draw.shape(0, 2)), shape[axis]),
        lambda: _call(aten.searchsorted.Tensor, x.sort(-1)[0].contiguous(), draw.tensor(*shape[:-1], draw.size())),
        lambda: _call(aten.bucketize.Tensor, x, draw.tensor(4).sort()[0]),
    )()


@sort
def norms(draw: Draw) -> Drawn:
    shape = draw.shape(1, 4)
    last = shape[draw.random.randrange(len(shape)) :]
    x, eps = draw.tensor(*shape), 0.1
    weight, bias = draw.of(None, draw.tensor(*last)), draw.of(None, draw.tensor(*last))
    mask = [draw.some(0.8), draw.some(0.8), draw.some(0.8)]

    def layer() -> Drawn:
        if draw.some():
            return _call(aten.native_layer_norm.default, x, last, weight, bias, eps)
        _, mean, rstd = aten.native_layer_norm.default(x, last, weight, bias, eps)
        wanted = [mask[0], mask[1] and weight is not None, mask[2] and bias is not None]
        grad = draw.tensor(*shape)
        return _call(aten.native_layer_norm_backward.default, grad, x, last, mean, rstd, weight, bias, wanted)

    def root_mean_square() -> Drawn:
        return _call(aten._fused_rms_norm.default, x, last, weight, eps)

    def group() -> Drawn:
        n, groups, inner = draw.size(), draw.of(1, 2, 3), draw.shape(0, 2)
        channels = groups * draw.of(1, 2)
        x = draw.tensor(n, channels, *inner).contiguous()
        weight, bias = draw.of(None, draw.tensor(channels)), draw.of(None, draw.tensor(channels))
        count = x.numel() // (n * channels)
        args = (n, channels, count, groups)
        if draw.some():
            return _call(aten.native_group_norm.default, x, weight, bias, *args, eps)
        _, mean, rstd = aten.native_group_norm.default(x, weight, bias, *args, eps)
        grad = draw.tensor(*x.shape).contiguous()
        wanted = [True, mask[1] and weight is not None, mask[2] and weight is not None]
        return _call(aten.native_group_norm_backward.default, grad, x, mean, rstd, weight, *args, wanted)

    def batch() -> Drawn:
        n, channels = draw.of(2, 4, 6), draw.size()
        x = draw.tensor(n, channels, *draw.shape(0, 2))
        affine = draw.some()
        weight, bias = (draw.tensor(channels), draw.tensor(channels)) if affine else (None, None)
        mean, var = draw.tensor(channels), draw.positive(channels)
        training = draw.some()
        if draw.some(0.6):
            return draw.of(
                lambda: _call(aten.native_batch_norm.default, x, weight, bias, None, None, True, 0.1, eps),
                lambda: _call(
                    aten._native_batch_norm_legit_functional.default, x, weight, bias, mean, var, training, 0.1, eps
                ),
                lambda: _call(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, 0.1, eps),
                lambda: _call(aten._native_batch_norm_legit_no_training.default, x, weight, bias, mean, var, 0.1, eps),
            )()
        _, saved, inverse = aten.native_batch_norm.default(
            x, weight, bias, mean.clone(), var.clone(), training, 0.1, eps
        )
        return _call(
            aten.native_batch_norm_backward.default,
            draw.tensor(*x.shape),
            x,
            weight,
            mean,
            var,
            saved,
            inverse,
            training,
            eps,
            [mask[0], affine, affine],
        )

    return draw.of(layer, layer, group, group, batch, root_mean_square)()


@sort
def convolutions(draw: Draw) -> Drawn:
    dims, groups, transposed = draw.of(1, 2, 2, 3), draw.of(1, 1, 2, 3), draw.some(0.3)
    n, inward, outward = draw.size(), draw.of(1, 2, 4) * groups, draw.of(1, 2, 3, 4) * groups
    kernel = [draw.of(1, 2, 3) for _ in range(dims)]
    inner = [draw.random.randint(size, 6) for size in kernel]
    weight = draw.tensor(*((inward, outward // groups) if transposed else (outward, inward // groups)), *kernel)
    bias = draw.of(None, draw.tensor(outward))
    x = draw.tensor(n, inward, *inner)
    options = (
        [draw.of(1, 1, 2)] * dims,
        [0 if transposed else draw.of(0, 1)] * dims,
        [1] * dims,
        transposed,
        [0] * dims,
        groups,
    )
    if draw.some():
        if draw.some(0.1) and not transposed:
            op = getattr(aten, f"conv{dims}d").default
            unbatched = x[0] if draw.some() else x
            return _call(op, unbatched, weight, bias, *options[:3], groups)
        return _call(aten.convolution.default, x, weight, bias, *options)
    result = aten.convolution.default(x, weight, bias, *options)
    mask = draw.of(
        [True, True, bias is not None],
        [False, True, bias is not None],
        [True, True, False],
        [True, False, False],
        [False, False, True],
    )
    return _call(aten.convolution_backward.default, draw.tensor(*result.shape), x, weight, [outward], *options, mask)


@sort
def pools(draw: Draw) -> Drawn:
    dims = draw.of(1, 2, 2, 3)
    leading = draw.shape(1, 1) if draw.some(0.2) else [draw.size(), draw.size()]
    x = draw.tensor(*leading, *(draw.of(2, 3, 4, 5, 6) for _ in range(dims)))
    inner = list(x.shape[-dims:])
    to = [draw.random.randint(1, 3) for _ in range(dims)]
    if dims == 1:
        return draw.of(
            lambda: _call(aten.avg_pool1d.default, x, [2], [draw.of(1, 2)], [0]),
            lambda: _call(aten.adaptive_max_pool1d.default, x, to),
            lambda: _call(aten.max_pool1d.default, x, [2], [1]),
        )()
    window = [2] * dims
    options = (window, [draw.of(1, 2)] * dims, [draw.of(0, 1)] * dims)
    most = getattr(aten, f"max_pool{dims}d_with_indices")
    most_back = getattr(aten, f"max_pool{dims}d_with_indices_backward")
    mean = getattr(aten, f"avg_pool{dims}d")
    mean_back = getattr(aten, f"avg_pool{dims}d_backward")
    adaptive = getattr(aten, f"_adaptive_avg_pool{dims}d")
    adaptive_back = getattr(aten, f"_adaptive_avg_pool{dims}d_backward")
    adaptive_most = getattr(aten, f"adaptive_max_pool{dims}d")
    adaptive_most_back = getattr(aten, f"adaptive_max_pool{dims}d_backward")

    def most_backward() -> Drawn:
        result, where = most.default(x, *options, [1] * dims, False)
        return _call(most_back.default, draw.tensor(*result.shape), x, *options, [1] * dims, False, where)

    def mean_backward() -> Drawn:
        ways = (False, draw.some(), draw.of(None, 3))
        result = mean.default(x, *options, *ways)
        return _call(mean_back.default, draw.tensor(*result.shape), x, *options, *ways)

    def adaptive_most_backward() -> Drawn:
        result, where = adaptive_most.default(x, to)
        return _call(adaptive_most_back.default, draw.tensor(*result.shape), x, where)

    return draw.of(
        lambda: _call(most.default, x, *options),
        most_backward,
        lambda: _call(mean.default, x, *options),
        mean_backward,
        lambda: _call(adaptive.default, x, to),
        lambda: _call(adaptive_back.default, draw.tensor(*leading, *to), x),
        lambda: _call(adaptive_most.default, x, to),
        adaptive_most_backward,
        lambda: _call(aten.max_pool2d.default, x, *options) if dims == 2 else _call(mean.default, x, *options),
        lambda: _call(aten.pixel_shuffle.default, draw.tensor(draw.size(), 4, 2, 3), 2),
        lambda: _call(aten.pixel_unshuffle.default, draw.tensor(draw.size(), 1, 4, 6), 2),
        lambda: _call(aten.channel_shuffle.default, draw.tensor(draw.size(), 6, 2, 2), draw.of(2, 3)),
        lambda: _call(aten.im2col.default, draw.tensor(draw.size(), 2, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1]),
        lambda: (
            _call(
                aten.grid_sampler_2d.default,
                draw.tensor(b := draw.size(), 2, 4, 4),
                draw.tensor(b, 3, 3, 2),
                0,
                0,
                False,
            )
            if inner
            else _call(mean.default, x, *options)
        ),
    )()


@sort
def padded(draw: Draw) -> Drawn:
    dims = draw.of(1, 2, 3)
    leading = draw.shape(1, 1) if draw.some(0.2) else [draw.size(), draw.size()]
    x = draw.tensor(*leading, *(draw.of(3, 4, 5) for _ in range(dims)))
    pads = [draw.of(0, 1, 2) for _ in range(2 * dims)]
    kind = draw.of("reflection_pad", "replication_pad")
    forward, backward = getattr(aten, f"{kind}{dims}d").default, getattr(aten, f"{kind}{dims}d_backward").default
    if draw.some():
        return _call(forward, x, pads)
    return _call(backward, draw.tensor(*forward(x, pads).shape), x, pads)


@sort
def resized(draw: Draw) -> Drawn:
    dims = draw.of(1, 2, 2, 3)
    x = draw.tensor(draw.size(), draw.size(), *(draw.of(1, 2, 3, 4) for _ in range(dims)))
    to = [draw.of(1, 2, 3, 4, 6) for _ in range(dims)]
    kind = draw.of(
        *(
            ("upsample_nearest", "upsample_linear"),
            (
                "upsample_nearest",
                "upsample_bilinear",
                "upsample_bicubic",
                "_upsample_nearest_exact",
                "_upsample_bilinear2d_aa",
            ),
            ("upsample_nearest", "upsample_trilinear"),
        )[dims - 1]
    )
    name = kind if kind.endswith("_aa") else f"{kind}{dims}d"
    corners = () if "nearest" in kind else (draw.some(),)
    grad = draw.tensor(*x.shape[:2], *to)
    if "_aa" in name:
        forward, backward = aten._upsample_bilinear2d_aa.default, aten._upsample_bilinear2d_aa_backward.default
    else:
        forward, backward = getattr(aten, name).default, getattr(aten, f"{name}_backward").default
    scales = [None] * dims
    if draw.some(0.3) and "_aa" not in name:
        return _call(getattr(aten, name).vec, x, None, *corners, [2.0] * dims)
    if draw.some():
        return _call(forward, x, to, *corners, *scales)
    return _call(backward, grad, to, list(x.shape), *corners, *scales)


@sort
def attentions(draw: Draw) -> Drawn:
    batch, heads, n, m, width = draw.size(), draw.of(1, 2, 4, 6), draw.size(), draw.size(), draw.of(2, 4, 8)
    causal = draw.some(0.4)
    if draw.some(0.2):
        heads = batch = n = m = 4
    groups = (
        draw.random.choice([each for each in range(1, heads + 1) if heads % each == 0]) if draw.some(0.3) else heads
    )
    # The kernels read rows that have no gaps, as layers make them.
    query, key, value = (
        draw.tensor(batch, length, each, width).contiguous().transpose(1, 2)
        for each, length in ((heads, n), (groups, m), (groups, m))
    )
    masks: list[list[int]] = [
        [n, m],
        [1, 1, n, m],
        [batch, 1, n, m],
        [batch, heads, n, m],
        [1, heads, n, m],
        [batch, 1, 1, m],
        [1, 1, 1, m],
    ]
    kwargs: dict[str, Any] = {}
    if not causal and draw.some(0.7):
        kwargs["attn_mask"] = draw.tensor(*draw.random.choice(masks)).contiguous()
    if draw.some(0.3):
        kwargs["scale"] = 0.3
    op = aten._scaled_dot_product_flash_attention_for_cpu.default
    back = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    if draw.some(0.15):
        return _call(
            aten._scaled_dot_product_attention_math.default,
            query,
            key,
            value,
            is_causal=causal,
            enable_gqa=True,
            **kwargs,
        )
    if draw.some():
        return _call(op, query, key, value, draw.of(0.0, 0.0, 0.0, 0), causal, **kwargs)
    result, total = op(query, key, value, 0.0, causal, **kwargs)
    return _call(back, draw.tensor(*result.shape).contiguous(), query, key, value, result, total, 0.0, causal, **kwargs)


@sort
def likelihoods(draw: Draw) -> Drawn:
    classes, reduction = draw.of(2, 3, 4), draw.of(0, 1, 2)
    image = draw.some(0.35)
    shape = [draw.size(), *((draw.size(), draw.size()) if image else ())]
    if not image and draw.some(0.15):
        shape = []
    scores = draw.tensor(*shape[:1], classes, *shape[1:]).log_softmax(1 if shape else 0)
    targets = draw.below(classes, *shape)
    ignored = draw.of(-100, -100, 0, 1)
    if draw.some(0.4) and shape:
        targets = torch.where(draw.mask(*shape), targets, -100)
        ignored = -100
    weight = draw.of(None, draw.positive(classes))
    forward = aten.nll_loss2d_forward.default if image else aten.nll_loss_forward.default
    backward = aten.nll_loss2d_backward.default if image else aten.nll_loss_backward.default
    if draw.some():
        return _call(forward, scores, targets, weight, reduction, ignored)
    result, total = forward(scores, targets, weight, reduction, ignored)
    if reduction == 1 and not total:
        total = torch.ones_like(total)
    return _call(backward, draw.tensor(*result.shape), scores, targets, weight, reduction, ignored, total)


@sort
def losses(draw: Draw) -> Drawn:
    shape, reduction = draw.shape(0), draw.of(0, 1, 2)
    x, y = draw.tensor(*shape), draw.tensor(*shape)
    if draw.some(0.15):
        y = draw.tensor(*draw.broadcast(shape))
    grad = draw.tensor(*(shape if reduction == 0 else []))
    low, high = draw.positive(*shape), draw.positive(*shape)
    weight = draw.of(None, draw.positive(*draw.broadcast(shape)))
    full = y.expand(shape)
    return draw.of(
        lambda: _call(aten.mse_loss.default, x, full, reduction),
        lambda: _call(aten.mse_loss_backward.default, grad, x, full, reduction),
        lambda: _call(aten.smooth_l1_loss.default, x, full, reduction, 0.5),
        lambda: _call(aten.smooth_l1_loss_backward.default, grad, x, full, reduction, 0.5),
        lambda: _call(aten.huber_loss.default, x, full, reduction, 0.5),
        lambda: _call(aten.huber_loss_backward.default, grad, x, full, reduction, 0.5),
        lambda: _call(aten.binary_cross_entropy.default, low, high, weight, reduction),
        lambda: _call(aten.binary_cross_entropy_backward.default, grad, low, high, weight, reduction),
        lambda: _call(aten.binary_cross_entropy_with_logits.default, x, high, weight, None, reduction),
        lambda: _call(aten.soft_margin_loss.default, x, full.sign(), reduction),
        lambda: _call(aten.soft_margin_loss_backward.default, grad, x, full.sign(), reduction),
        lambda: _call(aten.kl_div.default, low.log(), high, reduction),
        lambda: _call(aten.l1_loss.default, x, full, reduction),
    )()


@sort
def others(draw: Draw) -> Drawn:
    shape = draw.shape(2, 4)
    x = draw.tensor(*shape)
    n, c = draw.size(), draw.size()
    return draw.of(
        lambda: _call(aten._prelu_kernel.default, x, draw.tensor(*draw.broadcast(shape))),
        lambda: _call(aten._prelu_kernel_backward.default, x, draw.tensor(*shape), draw.tensor(*draw.broadcast(shape))),
        lambda: _call(aten.prelu.default, draw.tensor(n, c, 3), draw.tensor(draw.of(1, c))),
        lambda: _call(aten.view.dtype, draw.tensor(*shape, dtype=torch.float32).contiguous(), torch.int32),
        lambda: _call(
            aten.view.dtype,
            draw.tensor(*shape[:-1], 4, dtype=torch.float32).contiguous(),
            draw.of(torch.int64, torch.int16),
        ),
        lambda: _call(aten.view_as_complex.default, draw.tensor(*shape, 2).contiguous()),
        lambda: _call(aten.view_as_real.default, torch.complex(x, x)),
        lambda: _call(aten.expand_as.default, draw.tensor(*shape[1:]), x),
        lambda: _call(aten.view_as.default, x.contiguous(), draw.tensor(*shape)),
        lambda: _call(aten.repeat_interleave.self_int, x, 2, draw.axis(len(shape))),
        lambda: _call(aten.renorm.default, x, 2.0, draw.axis(len(shape)), 0.5),
        lambda: _call(aten.trace.default, draw.tensor(n, c)),
        lambda: (
            _call(aten.as_strided.default, x.contiguous(), [2, shape[-1]], [shape[-1], 1])
            if x.numel() >= 2 * shape[-1]
            else _call(aten.alias.default, x)
        ),
        lambda: _call(aten.diagonal_backward.default, draw.tensor(min(n, c)), [n, c], 0, 0, 1),
        lambda: _call(aten.diag_embed.default, x),
        lambda: _call(aten.embedding_renorm.default, draw.tensor(n, c), draw.below(n, 3), 0.5, 2.0),
        lambda: _call(aten.isin.Tensor_Tensor, x, draw.tensor(*shape)),
        lambda: _call(aten.linalg_cross.default, draw.tensor(n, 3), draw.tensor(n, 3)),
        lambda: _call(aten.native_dropout.default, x, 0.5, True),
        lambda: _call(aten.bernoulli.p, x, 0.5),
        lambda: _call(aten.rand_like.default, x),
        lambda: _call(aten.randn_like.default, x),
        lambda: _call(aten.empty_like.default, x),
        lambda: _call(aten._fft_r2c.default, x, [draw.axis(len(shape)) % len(shape)], 0, True),
        lambda: _call(aten.linalg_inv_ex.default, draw.tensor(n, 3, 3)),
    )()


#: Ops whose results are drawn at random, so that parts of them have other values.
RANDOM = {aten.native_dropout.default, aten.bernoulli.p, aten.rand_like.default, aten.randn_like.default}


def drawn_call(seed: int, only: str | None = None) -> Drawn:
    """A call of one sort, with some arguments by name."""
    draw = Draw(seed)
    op, args, kwargs = SORTS[only or draw.random.choice(list(SORTS))](draw)
    if draw.some(0.2) and args:
        kept = draw.random.randint(1, len(args))
        names = [argument.name for argument in op._schema.arguments]
        kwargs = {**dict(zip(names[kept:], args[kept:], strict=False)), **kwargs}
        args = args[:kept]
    return op, args, kwargs
