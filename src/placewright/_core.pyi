"""The C++ core: integers and arrays, and versions of Python classes."""

from collections.abc import Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray


class Simulation:
    """Times, peaks and limits of one simulated order."""

    @property
    def step_time_ns(self) -> int: ...

    @property
    def peak_memory_bytes(self) -> int: ...

    @property
    def bytes_over_limit(self) -> int: ...

    @property
    def peak_bytes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]: ...

    @property
    def start_ns(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]: ...

    @property
    def finish_ns(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]: ...

class Problem:
    """
    The immutable problem; see placewright.problem.Problem.core for the arrays.
    """

    def __init__(self, *, num_devices: int, op_time_ns: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], workspace_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], output_begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], transfer_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], copy_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], allocated_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], storage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], live_out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], input_begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], control_begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], controls: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], resident_begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], residents: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], resident_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], group: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], allowed: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_ns: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], inverse_bandwidth: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], memory_limit: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], host_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], launch_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocking: bool, signals: bool, minimize_memory: bool) -> None: ...

    @property
    def num_ops(self) -> int: ...

    @property
    def num_tensors(self) -> int: ...

    @property
    def num_devices(self) -> int: ...

    @property
    def num_keys(self) -> int: ...

    @property
    def needs_memory(self) -> bool: ...

    @property
    def has_hosts(self) -> bool: ...

    def simulate(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)]) -> Simulation:
        """
        Checks, then simulates an order. Raises ValueError when the order is not valid.
        """

    def lifetimes(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C')]:
        """
        The lifetimes of tensors in memory, a row for each: tensor, device, the position of the step at whose start it begins, and that of the step at whose finish it ends, -1 if it stays to the end. Tensors with memory of their own on their producer's device come first, then copies by position of the transfer.
        """

    def check_order(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)]) -> None:
        """Raises ValueError when the order is not valid for the placement."""

    def num_keys_of(self, decoder: str) -> int:
        """Length of a chromosome of that decoder; `num_keys` is that of "paper"."""

    def decode(self, keys: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], decoder: str = 'paper') -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """
        Placement and order that a decoder makes of a chromosome; see placewright.decoder.
        """

    def encode(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)], decoder: str = 'paper') -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C')]:
        """
        A chromosome that decodes to the given solution, or as close to it as the decoder comes.
        """

    def with_transfers(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], early: bool) -> Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]:
        """
        A whole order: transfers right after their producers, or right before their first consumers.
        """

def bfs_order(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """Ops in the sequence in which they become ready."""

def dfs_order(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """XLA's depth-first post-order."""

def lpmf_order(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """Inductor's least-peak-memory-first order."""

def xla_list_order(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """XLA's list order: most bytes freed first."""

def reverse_greedy_order(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """Greedy least memory, from the outputs backwards."""

def best_transfers(problem: Problem, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], evaluations_left: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')], tuple[int, int, int], int]:
    """
    The best of early, late and batched transfers for a valid order of ops, each one evaluation: the order, its fitness (bytes over the limit, objective, other objective) and the evaluations spent.
    """

def first_come_schedule(problem: Problem, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]:
    """
    The whole order with ops dispatched first come, first served: transfers early, or batched if they block.
    """

def measure_placements(problem: Problem, placements: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]]:
    """
    Step time, peak memory and bytes over the limits of each placement, scheduled first come, first served.
    """

def all_on(problem: Problem, device: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """Everything on one device, except what may not go there."""

def runs_filling_memory(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """
    The captured order cut into runs that fill one device after another up to its limit.
    """

def runs_balancing_memory(problem: Problem) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """
    The captured order cut into runs that divide the memory in proportion to the limits.
    """

class Outlook(enum.Enum):
    """
    The estimate for the time of an op or transfer while nothing is placed.
    """

    mean = 0
    """The mean over all devices, or links."""

    best = 1
    """The least over all devices; no transfers."""

    worst = 2
    """The largest over all devices, or links."""

    pairs = 3
    """
    The mean over all devices, or over all pairs of devices, each with itself included.
    """

def bottom_levels(problem: Problem, outlook: Outlook = Outlook.mean) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]:
    """The ns along the longest path from each op to the end."""

def bottom_level_order(problem: Problem, outlook: Outlook = Outlook.mean) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """Ops by bottom level, highest first."""

def list_schedule(problem: Problem, ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], least_peak: bool) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
    """
    Device and order of ops placed one by one, each where it finishes first, or where the peak is least.
    """

def earliest_task_first(problem: Problem) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
    """
    Device and order of ops; next is always the pair of op and device that can start first.
    """

def insertion_schedule(problem: Problem, ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], links_queue: bool, fixed: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, outlook: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], int]:
    """
    Device and order of ops, inserted one by one where they finish first, and when the last of them finishes if links are as planned. fixed: a device per op, or -1. outlook: ns per op and device, added when devices are compared.
    """

def optimistic_costs(problem: Problem) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C')]:
    """
    The ns that the longest path takes at least after each op on each device.
    """

def optimistic_order(problem: Problem, costs: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """Ops by mean optimistic cost, highest first, in a valid order."""

def critical_path_first(problem: Problem) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
    """
    Ops by the longest path through them, in a valid order; and for each op on the critical path the device of that path, else -1.
    """

def dispatch_order(problem: Problem, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """
    Ops by start time if no device is idle while an op could start there, the highest bottom level first.
    """

class InputsAside:
    """Inputs that share their device with other ops, set aside."""

    @property
    def rest(self) -> Problem:
        """The problem without them."""

    def whole_ops(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
        """Device and order of all ops, given those of the rest."""

    def whole_order(self, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """Device of all ops and a whole order, given those of the rest."""

def with_remote_inputs_first(problem: Problem, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]:
    """
    The order with the inputs that another device waits for at the beginning.
    """

def set_inputs_aside(problem: Problem, with_first_reader: bool) -> InputsAside:
    """
    The inputs that share their device with other ops, set aside; None if there are none. with_first_reader: their first reader shares the device too.
    """

def segment_fill(problem: Problem, when_one_starves: bool) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
    """Device of each op and a whole order, transfers at barriers."""

def with_evictions(problem: Problem, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], target: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]:
    """
    A whole order: transfers late, but earlier where a device would exceed its target of bytes.
    """

class BetaTables:
    """Quantiles of Beta distributions, a row for each."""

    def __init__(self, alpha: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def draw(self, row: int, uniforms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C')]:
        """Keys that a distribution gives for uniform draws."""

class Brkga:
    """Biased random-key genetic algorithm; see placewright.lab.peers.brkga."""

    def __init__(self, *, problem: Problem, seed: int, threads: int, population: int, elites: int, mutants: int, elite_bias: float, populations: int, exchange_interval: int, exchanged: int, decoder: str = 'paper', seeds: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], tables: BetaTables | None = None, row: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

    def evolve(self, generations: int) -> None:
        """
        Advances by that many generations; the first is the rest of the current one.
        """

    @property
    def generation(self) -> int: ...

    def best_keys(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C')]: ...

    def mean_decisions(self) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')]]:
        """
        Means over the individuals of the last complete generation: the share of them that has an op on a device, [op * device], and the position of each op in the order of ops, from 0 to 1, [op].
        """

class LocalSearch:
    """Greedy local search; see placewright.lab.peers.local_search."""

    def __init__(self, *, problem: Problem, seed: int, evaluations_per_start: int, device_share: float, reach: int, accept_equal: bool) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

class Annealing:
    """Simulated annealing over keys; see placewright.lab.peers.annealing."""

    def __init__(self, *, problem: Problem, seed: int, keys_per_move: int, first_temperature: float, last_temperature: float, decoder: str = 'paper', tables: BetaTables | None = None, row: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

    def best_keys(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C')]: ...

class PeakSearch:
    """
    Annealing for the least peak; see placewright.search.metaheuristics.peak_search.
    """

    def __init__(self, *, problem: Problem, seed: int, evaluations: int, first_temperature: float, last_temperature: float, starts: Sequence[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]]]) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

class ExactOrder:
    """
    The order of least peak on one device; see placewright.search.metaheuristics.peak_search.
    """

    def __init__(self, *, problem: Problem, start: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], least_bytes: int) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

    @property
    def is_exhausted(self) -> bool: ...

    @property
    def bound_bytes(self) -> int: ...

class ExactSchedule:
    """
    The fastest schedule of few ops; see placewright.search.metaheuristics.exact_schedule.
    """

    def __init__(self, *, problem: Problem, device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C', device='cpu', writable=False)], divisor_ns: int) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

    @property
    def is_exhausted(self) -> bool: ...

    @property
    def is_proven(self) -> bool: ...

def has_exact_schedule(problem: Problem) -> bool:
    """
    True if ExactSchedule takes the problem: few ops on several devices, transfers that overlap, no launches.
    """

def partition(problem: Problem, imbalance: float, passes: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """
    Device of each op: few bytes between devices, time balanced; see placewright.lab.peers.graph_partition.
    """

class ScheduleAnnealing:
    """
    Simulated annealing over schedules; see placewright.search.metaheuristics.schedule_annealing.
    """

    def __init__(self, *, problem: Problem, seed: int, starts: Sequence[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]]], first_temperature: float, last_temperature: float, ignores_limits: bool = False, move_weights: Sequence[int] = [45, 40, 8, 7]) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

    @property
    def work(self) -> int:
        """The units of work done so far, the same on every machine."""

def coarsen(problem: Problem, max_clusters: int) -> tuple[Problem, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
    """
    A problem whose ops are clusters of this one's ops, at most about max_clusters, and the cluster of each op.
    """

def chain_clusters(problem: Problem, cap_ns: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]:
    """
    The cluster of each op, numbered as coarse_problem takes it. Clusters grow along chains and take at most cap_ns of mean time.
    """

def coarse_problem(problem: Problem, cluster_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Problem:
    """
    The problem whose ops are the given clusters, numbered so that dependencies go from lower to higher.
    """

def expand(fine: Problem, coarse: Problem, cluster_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
    """
    A solution of the coarse problem as device and order of the fine problem's ops.
    """

def project(fine: Problem, coarse: Problem, cluster_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], device_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
    """
    A solution of the fine problem as device and order of the coarse problem's ops, as close as possible.
    """

def has_free_barriers(problem: Problem) -> bool:
    """
    True if there are several devices, transfers block and cost nothing, the step time is the objective and no host launches.
    """

class SuperstepAnnealing:
    """
    Annealing over supersteps; see placewright.search.metaheuristics.superstep_annealing.
    """

    def __init__(self, *, problem: Problem, seed: int, evaluations: int) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None, 2), order='C')]]:
        """The best so far: device of each op, and the whole order."""

def time_bounds(problem: Problem, work: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: int, heaviest: int, budget: int) -> tuple[int, int, int, int]:
    """
    Lower bounds on the step time in ns: the longest chain of op times, the longest chain with what must precede and follow each op, the fullest window, and launches.
    """

def live_memory_bound(problem: Problem, budget: int) -> tuple[int, int, bool]:
    """
    A lower bound on the bytes in use over all devices at some moment, the op whose start alone proves most, and whether no other op alone proves more.
    """

def remaking_bound(*, room: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], moment: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_way: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], may_go: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], way_from: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], way_to: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], made: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], run: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], time_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], prices: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], steps: int, budget: int) -> int:
    """
    A lower bound on the time to make memory again, in ns; see cpp/core/bounds/remaking.hpp.
    """

class RematerializationSearch:
    """
    Runs of ops that keep a memory limit; see placewright.rematerialization.
    """

    def __init__(self, *, problem: Problem, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], again_before: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, may_move: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, link_there: tuple[int, int] = (0, 0), link_back: tuple[int, int] = (0, 0), host_limit: int = 4611686018427387904, num_weights: int = 0) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    @property
    def best_peak_bytes(self) -> int: ...

    def best(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
        """
        The best so far, run by run: the op; the pieces of memory it makes that are kept, as bits, all for a first run; and the tensor that is moved, or -1. If the op is -1, the tensor has left the device (bits 0) or begins to come back (bits 1).
        """

class LevelProblem:
    """Tensors, levels and ops; see placewright.lab.memory_levels.problem."""

    def __init__(self, *, size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], last: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_weight: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], capacity: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_ps: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inverse_rate: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_prefetched: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], overhead_ps: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], compute_ps: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], fixed_ps: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], use_begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], use_tensor: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], use_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], use_is_early: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def num_ops(self) -> int: ...

    @property
    def num_tensors(self) -> int: ...

    @property
    def num_levels(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...

    def time_as_they_are(self, maps: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]:
        """Latencies in ps of maps that need not fit."""

    def details(self, map: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]]:
        """
        Time of each op in ps, and bytes in use by level and op, flat, without the slowest level.
        """

class LevelEvaluator:
    """Evaluates batches of maps on threads that it keeps."""

    def __init__(self, problem: LevelProblem, threads: int = 1) -> None: ...

    def evaluate(self, maps: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]]:
        """
        Latency in ps, bytes moved by the rectifier, and the rectified maps, flat.
        """

class LevelLocalSearch:
    """
    Local search that changes a few levels and rectifies the map; it sees only latencies.
    """

    def __init__(self, *, problem: LevelProblem, start: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], most_flips: int, seed: int) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
        """The best map so far."""

class LevelAnnealing:
    """Annealing of maps that fit."""

    def __init__(self, *, problem: LevelProblem, start: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_temperature: float, last_temperature: float, seed: int) -> None: ...

    def advance(self, evaluations: int, at_most: int = 9223372036854775807) -> None:
        """
        Searches until `evaluations` in all are spent, at most `at_most` of them in this call.
        """

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def best(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
        """The best map so far."""

def level_savings(problem: LevelProblem, start: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]:
    """
    The time that moving each tensor alone to each level would save, flat, whether or not it fits.
    """

def drawn_near(problem: LevelProblem, start: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
    """
    The map with every tensor in the fastest level that has room for it and costs nothing.
    """

def steepest_descent(problem: LevelProblem, start: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], per_byte: bool, most_evaluations: int) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')], int]:
    """
    The map after repeated moves that save the most, and the number of moves scored.
    """

class Neighbours:
    """
    Copies of a graph side by side, with the neighbours whose states each node reads.
    """

    def __init__(self, edges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], nodes: int, copies: int = 1) -> None: ...

    @property
    def nodes(self) -> int:
        """The nodes of one copy."""

    @property
    def copies(self) -> int: ...

    def lists(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')]]:
        """
        The begin of each node's list, and the nodes in the lists: each node comes first in its own.
        """

    def attend(self, states: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], of_source: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], of_target: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], heads: int) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')]]:
        """
        States after attention, with negative values set to 0, flat, and the weight of each neighbour by head, flat.
        """

    def attend_back(self, states: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], of_source: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], of_target: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], heads: int, result: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], shares: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], by_result: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')]]:
        """The gradients by states, of_source, of_target and bias, flat."""

    def pooled(self, scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], Neighbours]:
        """
        The half of each copy's nodes that has the highest scores, and their neighbours within two edges.
        """

def smallest_arena(begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], effort: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')], int, int]:
    """
    Offsets of buffers that are alive from event `begin` up to event `end`, the size of their arena, and a lower bound on the size of any arena.
    """

class TypeVersions:
    """Finds which of the watched classes may have changed."""

    def __init__(self) -> None: ...

    def add(self, type: type) -> None:
        """Watches one more class."""

    def changed(self) -> list[int]:
        """The places of the classes that may have changed."""

    def accept(self, place: int) -> None:
        """Accepts a class as it is now."""
