"""Real networks on two devices: outputs, losses, gradients and buffers are those of the network, bit by bit.

Where PyTorch captures other ops than it runs, last bits may differ.
"""

import copy

import pytest
import torch
from torch.utils import _pytree as pytree

import placewright
from placewright.execution.devices import available_cores
from placewright.importers.torch.results import default_loss
from placewright.lab.datasets.zoo.catalogue import all_networks

NETWORKS = {network.name: network for network in all_networks()}
#: Small ones with batch normalization, dropout, a vocabulary, several inputs, strides that capture cannot foresee.
QUICK = ("lenet5", "bert_tiny", "ghostnet", "mmoe", "vq_vae")
#: Inputs that hang together, so that they cannot be cut one by one: edges that name nodes.
WHOLE_BATCH = {name for name, network in NETWORKS.items() if network.family == "graph_networks"}
#: With bilinear interpolation, which PyTorch captures as many small ops instead of its kernel: other last bits. Those
#: of PSPNet's inference differ from the network's by 6e-7 of the largest, the network's from doubles by 2e-6.
INTERPOLATED = {"unet", "fcn50", "pspnet50", "deeplab_v3"}
BATCH = 2
MAX_PARAMETERS = 80_000_000
pytestmark = [
    pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each"),
    pytest.mark.usefixtures("one_thread_for_an_op"),
]


def made(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A network and a small batch of something; whole numbers stay below 8, which every vocabulary has."""
    torch.manual_seed(1)
    model, arguments = NETWORKS[name].build()
    batch = None if name in WHOLE_BATCH else arguments[0].shape[0]
    few = [given[:BATCH] if given.dim() and given.shape[0] == batch else given for given in arguments]
    return model, tuple(
        torch.randn(given.shape) if given.is_floating_point() else torch.randint(0, 8, given.shape) for given in few
    )


def assert_same(found: object, expected: object, *, but_last_bits: bool = False) -> None:
    for leaf, want in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        if isinstance(want, torch.Tensor):
            leaf, want = torch.nan_to_num(leaf), torch.nan_to_num(want)
            # Last bits relative to the largest element: where terms cancel, small elements differ by more of their own.
            allowed = 1e-5 * want.abs().max() if but_last_bits else 0
            assert leaf.shape == want.shape
            assert torch.all((leaf - want).abs() <= allowed)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NETWORKS]
)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_two_devices_compute_what_the_network_computes(name: str, training: bool) -> None:
    model, arguments = made(name)
    if sum(parameter.numel() for parameter in model.parameters()) > MAX_PARAMETERS:
        pytest.skip("its weights and gradients, held twice, take gigabytes")
    reference = copy.deepcopy(model).train(training)
    but_last_bits = name in INTERPOLATED
    with (
        placewright.compile(model, arguments, devices="cpu:0,cpu:1", training=training, evaluations=1) as compiled,
        torch.set_grad_enabled(training),
    ):
        for seed in range(2 if training else 1):
            torch.manual_seed(seed)
            expected = reference(*arguments)
            if training:
                expected = default_loss(expected)
                expected.backward()
            torch.manual_seed(seed)
            assert_same(compiled(*arguments), pytree.tree_map(torch.detach, expected), but_last_bits=but_last_bits)
    assert len({op.device for op in compiled.plan.ops}) == 2 or compiled.plan.metrics.num_transfers == 0
    for parameter, want in zip(model.parameters(), reference.parameters(), strict=True):
        assert (parameter.grad is None) == (want.grad is None)
        if want.grad is not None:
            assert_same(parameter.grad, want.grad, but_last_bits=but_last_bits)
    assert_same(list(model.buffers()), list(reference.buffers()), but_last_bits=but_last_bits)
