"""Training steps with a stretch of ops in parts keep limits that no plan of whole ops keeps, and give what the module
gives but for last bits."""

import pytest
import torch
from torch import nn

import placewright
from placewright.analysis.outcome import limit_words
from placewright.execution.pytorch.memory import allocated_peak
from placewright.importers.torch.front import trace_joint
from placewright.importers.torch.splitting.choices import choices
from placewright.support.errors import InputError

CLASSES, ROWS, LIMIT = 2000, 64, 1_100_000


class Classifier(nn.Module):
    """The mean loss of rows over many classes; some rows have no known class. Logits take most of its memory."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.head = nn.Linear(16, 24), nn.LayerNorm(24), nn.Linear(24, CLASSES)

    def forward(self, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.norm(self.first(rows)).relu())
        return nn.functional.cross_entropy(logits, classes, ignore_index=3)


def given() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    classes = torch.randint(CLASSES, (ROWS,))
    classes[::7] = 3
    return torch.randn(ROWS, 16), classes


def assert_equal_but_for_last_bits(model: nn.Module, plain: nn.Module) -> None:
    for own, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad, rtol=1e-5, atol=1e-7)


def held(model: nn.Module) -> int:
    tensors = (*model.parameters(), *given())
    return sum(tensor.nbytes for tensor in tensors)


def test_a_loss_in_parts_keeps_a_limit_that_whole_ops_cannot() -> None:
    # Parameters, 16 * 24 + 24 + 48 + 25 * 2,000 = 50,456, and as many gradients take 404 kB, logits 64 * 2,000 * 4 =
    # 512 kB; two tensors like the logits are there at once when each op runs whole.
    model, plain = Classifier(), Classifier()
    with pytest.raises(InputError, match="whatever runs again"):
        placewright.fit(model, given(), LIMIT, evaluations=20)
    with placewright.fit(model, given(), LIMIT, split=True, evaluations=20) as step:
        step(*given())
        # Which stretch and how many parts take least time depends on the machine.
        assert f" in {step.plan.configuration['split']['parts']} parts" in limit_words(step.plan)
        model.zero_grad()
        assert held(model) + allocated_peak(lambda: step(*given())) <= LIMIT
        model.zero_grad()
        loss, expected = step(*given()), plain(*given())
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    assert_equal_but_for_last_bits(model, plain)


def test_the_loss_is_scaled_as_the_loop_scales_it() -> None:
    model, plain = Classifier(), Classifier()
    options = {"split": True, "evaluations": 20, "loss": lambda loss: loss * 0.3}
    with placewright.fit(model, given(), LIMIT, **options) as step:
        step(*given())
    (plain(*given()) * 0.3).backward()
    assert_equal_but_for_last_bits(model, plain)


def test_dropout_draws_what_the_module_draws() -> None:
    class Dropping(Classifier):
        def forward(self, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            return super().forward(nn.functional.dropout(rows, 0.5), classes)

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.Sequential(self.norm, nn.Dropout(0.3))

    model, plain = Dropping(), Dropping()
    with placewright.fit(model, given(), LIMIT, split=True, evaluations=20) as step:
        torch.manual_seed(2)
        loss = step(*given())
    torch.manual_seed(2)
    expected = plain(*given())
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    assert_equal_but_for_last_bits(model, plain)


def test_a_split_that_does_not_fit_with_what_its_kernels_take_gives_way_to_another() -> None:
    class Distance(Classifier):
        def forward(self, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            return nn.functional.mse_loss(self.head(self.norm(self.first(rows)).relu()), wanted)

    # PyTorch's kernel of the mean square makes a tensor like the rows, which takes 512 kB when these are whole.
    torch.manual_seed(3)
    wanted = torch.randn(ROWS, CLASSES)
    for limit in range(1_900_000, 3_000_000, 200_000):
        model, plain = Distance(), Distance()
        with placewright.fit(model, given(), limit, split=True, evaluations=20) as step:
            step(*given())
            model.zero_grad()
            assert held(model) + wanted.nbytes + allocated_peak(lambda: step(*given())) <= limit
        plain(*given()).backward()
        assert_equal_but_for_last_bits(model, plain)


def test_inductor_keeps_the_limit_in_parts() -> None:
    # It fuses the loss, so that parameters, gradients and logits once, 404 kB and 512 kB, are what whole ops need.
    model, plain, limit = Classifier(), Classifier(), 800_000
    fitted = placewright.fit(model, limit, backend="inductor", split=True)

    def step() -> None:
        (fitted(*given()) * 0.3).backward()

    step()
    assert all("split" in graph.plan.configuration for graph in fitted.graphs)
    model.zero_grad()
    assert held(model) + allocated_peak(step) <= limit
    (plain(*given()) * 0.3).backward()
    assert_equal_but_for_last_bits(model, plain)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_that_could_be_too_small_for_a_gradient_of_one_stay_whole(dtype: torch.dtype) -> None:
    # With a loss scaled by 65,536 a gradient of 1e-9 is there in float16, and without it is 0.
    model = Classifier().to(dtype)
    rows, classes = given()
    graph = trace_joint(model, (rows.to(dtype), classes), {}, training=True, loss=None).graph
    rows_read = [node for node in graph.find_nodes(op="placeholder") if node.meta["val"].shape == rows.shape]
    assert bool(list(choices(graph, rows_read))) == (dtype == torch.bfloat16)
