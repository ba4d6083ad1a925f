"""Calls that draw, view and write, each of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from random_network.ops import One

#: Random numbers; each is of the module's own mode where PyTorch asks for one.
RANDOM: dict[str, Callable[[Any, bool], Any]] = {
    "dropout": lambda x, t: F.dropout(x, 0.4, t),
    "dropout_": lambda x, t: F.dropout(x * 2, 0.4, t, inplace=True),
    "dropout_always": lambda x, t: F.dropout(x, 0.3),
    "alpha": lambda x, t: F.alpha_dropout(x, 0.3, t),
    "dropout1d": lambda x, t: F.dropout1d(x[None], 0.4, t),
    "feature_alpha": lambda x, t: F.feature_alpha_dropout(x[None], 0.4, t),
    "rrelu": lambda x, t: F.rrelu(x, training=t),
    "rand": lambda x, t: x * torch.rand(3, 4),
    "rand_double": lambda x, t: x * torch.rand(3, 4, dtype=torch.float64).to(x.dtype),
    "randn": lambda x, t: x + torch.randn(4).to(x.dtype),
    "randn_like": lambda x, t: x + torch.randn_like(x),
    "rand_like_t": lambda x, t: x.t() + torch.rand_like(x.t()),
    "randint": lambda x, t: x * torch.randint(0, 5, (4,)),
    "randint_like": lambda x, t: x + torch.randint_like(x, 3),
    "randperm": lambda x, t: x[:, torch.randperm(4)],
    "bernoulli": lambda x, t: x * torch.bernoulli(torch.full((3, 4), 0.5)).to(x.dtype),
    "bernoulli_p": lambda x, t: x.sigmoid().detach().bernoulli() * x,
    "bernoulli_": lambda x, t: torch.empty(3, 4).bernoulli_(0.3).to(x.dtype) * x,
    "multinomial": lambda x, t: x.detach().softmax(1).multinomial(2) + x[:, :2],
    "multinomial_replaced": lambda x, t: x.detach().softmax(1).multinomial(6, replacement=True).float(),
    "normal": lambda x, t: torch.normal(x.detach(), 0.5) + x,
    "normal_size": lambda x, t: x + torch.normal(0.0, 1.0, (3, 4)),
    "poisson": lambda x, t: torch.poisson(x.detach().abs()) + x,
    "normal_": lambda x, t: x * torch.empty(3, 4).normal_(0, 2).to(x.dtype),
    "uniform_": lambda x, t: x * torch.empty(4).uniform_(-1, 1).to(x.dtype),
    "exponential_": lambda x, t: x * torch.zeros(4).exponential_().to(x.dtype),
    "log_normal_": lambda x, t: x * torch.zeros(4).log_normal_().to(x.dtype).clamp(max=3),
    "cauchy_": lambda x, t: x * torch.zeros(4).cauchy_().to(x.dtype).tanh(),
    "geometric_": lambda x, t: x * torch.zeros(4).geometric_(0.5).to(x.dtype),
    "random_": lambda x, t: x * torch.zeros(4).random_(3).to(x.dtype),
    "gumbel": lambda x, t: F.gumbel_softmax(x, hard=True),
    "unused": lambda x, t: (torch.rand(5), x * 2)[1],
    "unused_dropout": lambda x, t: (F.dropout(x, 0.5), x * 2)[1],
    "unused_perm": lambda x, t: (torch.randperm(5), x * 2)[1],
    "own_generator": lambda x, t: x * torch.rand(4, generator=torch.Generator().manual_seed(3)),
    "fork": lambda x, t: x * forked(x),
    "distribution": lambda x, t: torch.distributions.Normal(x, 1.0, validate_args=False).rsample(),
    "categorical": lambda x, t: torch.distributions.Categorical(logits=x, validate_args=False).sample().float(),
    "randn_zero": lambda x, t: x + torch.randn(0).sum(),
    "p_one": lambda x, t: F.dropout(x, 1.0, t) + x,
    "p_zero": lambda x, t: F.dropout(x, 0.0, t),
    "dropout_bf16": lambda x, t: F.dropout(x.bfloat16() * 0 + 1, 0.5, t).to(x.dtype) * x,
}


def forked(x: Any) -> Any:
    """Numbers of a generator that is put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        return torch.rand(4).to(x.dtype)


#: Views of 3 rows and 4 columns; a list of them where there are several.
VIEWS: dict[str, One] = {
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.unsqueeze(0).permute(2, 0, 1),
    "row": lambda x: x[1],
    "column": lambda x: x[:, 2],
    "slice": lambda x: x[1:, ::2],
    "negative": lambda x: x[:, -2:],
    "select": lambda x: x.select(1, 0),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), x.storage_offset()),
    "as_strided_own": lambda x: torch.as_strided(x, (2, 3), (1, 2), x.storage_offset()),
    "unbind": lambda x: x.unbind(0)[1],
    "chunk": lambda x: x.chunk(2, 1)[0],
    "split": lambda x: x.split([1, 2])[1],
    "tensor_split": lambda x: x.tensor_split(2)[0],
    "reshape": lambda x: x.reshape(2, 6),
    "reshape_t": lambda x: x.t().reshape(-1),
    "view": lambda x: x.reshape(3, 4).view(-1) if not x.is_contiguous() else x.view(-1),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "expand": lambda x: x[:, :1].expand(3, 4),
    "expand_as": lambda x: x[0].expand_as(x),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "movedim": lambda x: x.movedim(0, 1),
    "detach": lambda x: x.detach(),
    "alias": lambda x: x.view_as(x),
    "ellipsis": lambda x: x[..., None, 0],
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(x.dtype),
    "real": lambda x: x.real,
    "view_dtype": lambda x: x.detach().contiguous().view(torch.int32 if x.dtype == torch.float32 else torch.int64),
    "mT": lambda x: x.mT,
    "T_row": lambda x: x.T[0],
    "swap": lambda x: x.swapdims(0, 1)[1],
    "empty": lambda x: x[:0],
    "whole": lambda x: x[:],
    "hsplit": lambda x: x.hsplit(2)[1],
    "data": lambda x: x.data,
}

#: Writes to a tensor of any shape.
WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.add_(1),
    "iadd": lambda x: x.__iadd__(0.5),
    "mul_": lambda x: x.mul_(0.5),
    "tanh_": lambda x: x.tanh_(),
    "sigmoid_": lambda x: x.sigmoid_(),
    "relu_": lambda x: F.relu(x, inplace=True),
    "clamp_": lambda x: x.clamp_(-0.3, 0.3),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(0.25),
    "copy_": lambda x: x.copy_(x.detach().clone() * 2),
    "copy_number": lambda x: x.copy_(torch.tensor(0.5)),
    "setitem": lambda x: x.__setitem__(0, 0.5),
    "setitem_all": lambda x: x.__setitem__(Ellipsis, x.detach() + 1),
    "setitem_mask": lambda x: x.__setitem__(x.detach() > 0, 0.1),
    "setitem_index": lambda x: x.__setitem__(torch.zeros(1, dtype=torch.long), 0.3),
    "masked_fill_": lambda x: x.masked_fill_(x.detach() > 0, 0.1),
    "neg_": lambda x: x.neg_(),
    "addcmul_": lambda x: x.addcmul_(x.detach(), x.detach(), value=0.1),
    "sub_": lambda x: x.sub_(x.detach().mean()),
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor([0]), 0.7),
    "data_add": lambda x: x.data.add_(1),
    "detach_mul": lambda x: x.detach().mul_(0.5),
    "no_grad": lambda x: without_grad(x),
    "uniform_": lambda x: x.uniform_(-1, 1),
    "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "random_": lambda x: x.random_(0, 3),
    "exp_": lambda x: x.clamp_(max=1).exp_(),
    "pow_": lambda x: x.pow_(2),
    "div_": lambda x: x.div_(2),
    "round_": lambda x: x.round_(),
    "cumsum_": lambda x: x.cumsum_(0),
    "lerp_": lambda x: x.lerp_(torch.ones((), dtype=x.dtype), 0.3),
    "foreach": lambda x: torch._foreach_add_([x], 0.5),
    "out": lambda x: written_out(x),
    "dropout_": lambda x: F.dropout(x, 0.5, True, inplace=True),
    "logical": lambda x: x.logical_not_(),
    "where_out": lambda x: x.copy_(torch.where(x.detach() > 0, x.detach(), torch.zeros((), dtype=x.dtype))),
    "set_data": lambda x: setattr(x, "data", x.data + 1),
    "set_": lambda x: x.detach().set_(torch.zeros(4, dtype=x.dtype)),
    "resize_": lambda x: x.detach().clone().resize_(2, 2),
    "transpose_": lambda x: x.t_().t_() if x.dim() == 2 else x.add_(1),
    "fill_tensor": lambda x: x.fill_(torch.tensor(0.5)),
    "init": lambda x: torch.nn.init.constant_(x, 0.4),
    "swap": lambda x: x.copy_(x.detach().flip(0)),
}


def without_grad(x: Any) -> None:
    """A write that autograd does not see."""
    with torch.no_grad():
        x.mul_(0.5).add_(0.1)


def written_out(x: Any) -> None:
    """A write through the argument `out`."""
    with torch.no_grad():
        torch.mul(x, 0.5, out=x)
