"""Ways to run a training step, tried one by one: likely ones first, and those that need a search last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from placewright.analysis.alternatives import Alternatives, Floor, TrainingSetup, ranked
from placewright.analysis.basis import basis_words
from placewright.api.pass_captures import PassCaptures, Trained, can_have_adapters
from placewright.api.setup_ways import CHANGES, Place, Runs, Way, resident, rules_of, setup, without_a_plan
from placewright.bounds import least_limit
from placewright.costs import count_sources
from placewright.costs.estimate import TimeSources
from placewright.machine import Machine
from placewright.problem.objective import Metrics
from placewright.rematerialization.proofs import no_runs_fit, some_may_run_again
from placewright.rematerialization.solve import (
    in_order,
    in_other_order,
    ops_of,
    order_of_least_memory,
    rematerialize,
    rerun_evaluations,
)
from placewright.search.run.budget import Budget, Interrupted, OnProgress
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.support.interruption import until_interrupted
from placewright.support.quantities import counted, format_bytes

#: Numbers of passes with accumulated gradients that are tried, as far as they divide the batch.
_ACCUMULATIONS = (2, 4, 8)
#: Divisors and factors of the batch for smaller and larger ones that are tried instead.
_FEWER, _MORE = (2, 4), (2, 4)
#: The most plans that are searched for after each sort of capture.
_MOST_PLANS = 4
#: The most ways with a smaller least memory that are reported.
_MOST_LOWERED = 2
#: The share of time that is not worth a search.
_LITTLE = 0.005
#: The share of memory that is worth another way to step.
_WORTH = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tried:
    """A way that was tried without a plan: its metrics and its setup."""

    way: Way
    metrics: Metrics
    setup: TrainingSetup


@dataclass(kw_only=True)
class SetupSearch:
    """Setups tried one by one.

    until: the processor time after which no other capture or search begins. tried: ways without a plan, with the user's
    optimizer. planned: those for which a plan has been searched. longest: seconds of the longest capture.
    """

    captures: PassCaptures
    places: Sequence[Place]
    keep: Sequence[str] = ()
    evaluations: int | None = None
    seed: int = 0
    until: float = 0.0
    on_progress: OnProgress | None = None
    on_stage: Callable[[str], None] | None = None
    interrupted: Interrupted | None = None
    setups: list[TrainingSetup] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    tried: list[_Tried] = field(default_factory=list)
    planned: list[_Tried] = field(default_factory=list)
    sources: TimeSources | None = None
    longest: float = 0.0

    def as_it_is(self) -> list[TrainingSetup]:
        """The step as it is, and variants without another capture. Raises InputError where it cannot be captured."""
        started = time.process_time()
        self._tell("the step as it is")
        for way in self._ways("own", autocast=False, batches=[(self.captures.samples, 1)]):
            self._try(way)
        self.longest = time.process_time() - started
        return self.setups

    def everything(self, machine: Machine, reserved: int) -> Alternatives:
        """All setups that are found until the time is over."""
        with until_interrupted(self.interrupted):
            self.as_it_is()
            self._others()
        if not self.setups:
            raise KeyboardInterrupt
        return Alternatives(
            schema_version=1,
            model=type(self.captures.model).__name__,
            machine=machine.name,
            samples=self.captures.samples,
            optimizer=self.places[0].optimizers[0].name,
            reserved_bytes=reserved,
            basis=basis_words(self.sources, machine),
            setups=ranked(self.setups),
            floors=tuple(self._floor(place) for place in self.places),
            left_out=tuple(self.left_out),
            seed=self.seed,
        )

    def _others(self) -> None:
        """Tries setups that need one capture each, the likely ones first, and plans where they can be the fastest."""
        # Where parameters and states alone exceed the limit, nothing that trains the same fits.
        hopeless = all(
            each.parameter_bytes + each.optimizer_bytes > each.limit_bytes for each in self.setups if not each.changes
        )
        if hopeless:
            self._changed()
        if self.captures.dtype == "float32":
            self._autocast()
            # Tensor cores gain more than another batch in float32.
            if not hopeless:
                self._changed()
            self._own_batches()
        else:
            self._own_batches()
            if not hopeless:
                self._changed()

    def _autocast(self) -> None:
        # However long it takes, most people need this capture, with its plans, which take little in comparison.
        needed, self.longest, before = self.longest, 0.0, len(self.tried)
        batches = [(self.captures.samples, 1), *self._other_batches()]
        self._stage("bfloat16 autocast", "own", autocast=True, batches=batches)
        self.longest = needed
        if len(self.tried) > before:
            self.until, until = float("inf"), self.until
            self._plans()
            self.until = until

    def _own_batches(self) -> None:
        own = self.captures.dtype
        self._stage(f"other batches in {own}", "own", autocast=False, batches=self._other_batches())
        self._plans()

    def _changed(self) -> None:
        own, samples = self.captures.dtype, self.captures.samples
        few = [(samples, 1), (2 * samples, 1)]
        if own == "float32":
            self._stage(CHANGES["bfloat16"], "bfloat16", autocast=False, batches=few)
        if can_have_adapters(self.captures.model):
            self._stage(CHANGES["lora"], "lora", autocast=own == "float32", batches=few)

    def _other_batches(self) -> list[tuple[int, int]]:
        samples = self.captures.samples
        counts = [count for count in _ACCUMULATIONS if samples % count == 0]
        fewer = [(samples // part, 1) for part in _FEWER if samples % part == 0]
        return [*((samples // count, count) for count in counts), *fewer, *((samples * more, 1) for more in _MORE)]

    def _stage(self, words: str, trained: Trained, *, autocast: bool, batches: Sequence[tuple[int, int]]) -> None:
        if self._no_time(self.longest):
            self.left_out.append(f"{words}: there was no time for it")
            return
        self._tell(words)
        failed: dict[str, list[str]] = {}
        for batch, count in batches:
            try:
                for way in self._ways(trained, autocast=autocast, batches=[(batch, count)]):
                    self._try(way)
            except InputError as error:
                failed.setdefault(str(error), []).append(f"{batch} x {count}" if count > 1 else str(batch))
        self.left_out += [f"{words}, batch {', '.join(sizes)}: {error}" for error, sizes in failed.items()]

    def _tell(self, captured: str) -> None:
        if self.on_stage is not None:
            self.on_stage(f"{counted(len(self.setups), 'way')} tried; capturing {captured}")

    def _no_time(self, needed: float = 0.0) -> bool:
        return time.process_time() + needed > self.until or bool(self.interrupted and self.interrupted())

    def _ways(self, trained: Trained, *, autocast: bool, batches: Sequence[tuple[int, int]]) -> Iterator[Way]:
        for place in self.places:
            rules = rules_of(place, autocast=autocast)
            for batch, count in batches:
                yield Way(
                    place=place,
                    for_plans=self.captures.get(batch, trained, rules),
                    trained=trained,
                    batch=batch,
                    accumulation=count,
                    dtype="bfloat16" if autocast or trained == "bfloat16" else self.captures.dtype,
                    autocast=autocast,
                )

    def _try(self, way: Way) -> None:
        """Tries ways to run it without a plan. A step apart from the others is kept only where it needs less."""
        least: dict[bool, float] = {}
        for optimizer in way.optimizers:
            problem = way.problem(way.passes, optimizer)
            if self.sources is None and problem.time_origin is not None:
                self.sources = count_sources(problem.time_origin)
            plain = measure(problem, in_order(problem))
            for runs in without_a_plan(problem, plain):
                found, is_checkpointed = setup(way, optimizer, runs, plain), bool(runs.blocks)
                others = least.get(is_checkpointed, float("inf"))
                if optimizer.is_apart and found.peak_bytes > (1 - _WORTH) * others:
                    continue
                least[is_checkpointed] = min(others, found.peak_bytes)
                self.setups.append(found)
                if not is_checkpointed and optimizer is way.place.fused:
                    self.tried.append(_Tried(way=way, metrics=plain, setup=found))

    def _plans(self) -> None:
        """Searches for plans where they can be the fastest: none takes less time than the step without a plan."""
        for place in self.places:
            own = [each for each in self.tried if each.way.place is place and each.way.trained == "own"]
            candidates = [each for each in own if not each.setup.fits and each not in self.planned]
            # On CPUs PyTorch's bfloat16 kernels use workspaces of unknown size.
            candidates = [each for each in candidates if not (place.is_cpu and each.way.autocast)]
            for each in sorted(candidates, key=lambda each: each.setup.time_per_sample_ns)[:_MOST_PLANS]:
                if each.setup.time_per_sample_ns >= self._best_time(place):
                    break
                if self._no_time():
                    self.left_out.append(f"a plan of {each.setup.words}: there was no time for it")
                    break
                self.planned.append(each)
                self.setups += self._planned(each)

    def _best_time(self, place: Place) -> float:
        """The least time per sample of the setups that fit a device and train the same."""
        times = (
            each.time_per_sample_ns
            for each in self.setups
            if each.device == place.name and each.fits and not each.changes
        )
        return min(times, default=float("inf"))

    def _planned(self, tried: _Tried) -> Iterator[TrainingSetup]:
        """Plans of a way that does not fit: with ops in parts, and where that is not enough with ops that run again."""
        fused = tried.way.place.fused
        found = self._in_parts(tried)
        if found is not None and found.setup.fits:
            yield found.setup
            if found.setup.time_per_sample_ns < (1 + _LITTLE) * tried.setup.time_per_sample_ns:
                return
        for each in (tried, found) if found is not None and not found.setup.fits else (tried,):
            if (runs := self._searched(each.way)) is not None:
                yield setup(each.way, fused, runs, each.metrics)

    def _in_parts(self, tried: _Tried) -> _Tried | None:
        """The fastest with ops in parts that fits, or the one that needs least; None where whole ops need no more."""
        way, least = tried.way, (1 - _WORTH) * tried.setup.peak_bytes
        found: list[_Tried] = []
        for number, split in enumerate(self.captures.splits(way.batch, way.trained, way.rules)):
            # Where the most parts do not fit, fewer hardly do; otherwise the fewest that fit are searched for.
            most = split.counts[-1]
            for count in (most, *split.counts[:-1]):
                try:
                    passes = self.captures.in_parts(way.batch, number, count, way.trained, way.rules)
                except InputError:
                    continue
                parted = replace(way, for_plans=passes, split=f"{split.name} in {count} parts")
                problem = parted.problem(passes, way.place.fused)
                metrics = measure(problem, in_order(problem))
                runs = Runs(graph=problem.graph, metrics=metrics, is_planned=True)
                one = setup(parted, way.place.fused, runs, metrics)
                found.append(_Tried(way=parted, metrics=metrics, setup=one))
                is_last = one.fits if count < most else not one.fits
                if is_last:
                    break
        worth = (each for each in found if each.setup.fits or each.setup.peak_bytes < least)
        return min(worth, key=lambda each: _nearest(each.setup), default=None)

    def _searched(self, way: Way) -> Runs | None:
        """The last pass with ops that run again, or in another order.

        Nothing is moved to the host, since `fit` moves nothing in a training step. None where the search finds nothing
        to do, or the least memory needed is proven to exceed the limit. An optimizer that steps after several passes
        is not in the plan, so gradients are held until then.
        """
        one = way.problem(way.for_plans, way.place.fused)
        if no_runs_fit(one, None) or not some_may_run_again(one, self.keep):
            return None
        run = SearchRun(
            Budget(evaluations=self.evaluations or max(12, rerun_evaluations(one) // 4)),
            seed=self.seed,
            on_progress=self.on_progress,
            interrupted=self.interrupted,
        )
        orders = [order_of_least_memory(one)] if way.accumulation == 1 else []
        again = rematerialize(one, run, self.keep, orders=orders)
        order = ops_of(again.result.solution.order)
        if not again.reruns and bool((order == np.arange(len(order))).all()):
            return None
        graph = in_other_order(again.problem, order).graph
        return Runs(graph=graph, metrics=again.result.metrics, is_planned=True, num_reruns=len(again.reruns))

    def _floor(self, place: Place) -> Floor:
        """The least memory of the step as it is, and the ways that were tried which lower it."""
        captures = self.captures
        own = Way(
            place=place,
            for_plans=captures.get(captures.samples),
            trained="own",
            batch=captures.samples,
            accumulation=1,
            dtype=captures.dtype,
            autocast=False,
        )
        problem = own.problem(own.for_plans, place.fused)
        least, name = least_limit(problem)
        sizes = resident(problem.graph, own)
        (op,) = [each for each in problem.graph.ops if each.name == name]
        states = min(sizes["optimizer_bytes"], least)
        parameters = min(sizes["parameter_bytes"], least - states)
        return Floor(
            device=place.name,
            least_bytes=least,
            parameter_bytes=parameters,
            optimizer_bytes=states,
            needed_bytes=least - states - parameters,
            op=name,
            kind=op.kind,
            lowered_by=tuple(self._lowers(own, least)),
        )

    def _lowers(self, own: Way, least: int) -> Iterator[str]:
        """The ways that were tried whose least memory is smaller, with that memory."""
        place = own.place
        found: dict[str, int] = {}
        samples = self.captures.samples
        for number, split in enumerate(self.captures.splits(samples)):
            passes = self.captures.in_parts(samples, number, split.counts[-1])
            size = least_limit(replace(own, for_plans=passes).problem(passes, place.fused))[0]
            found[f"the {split.name} in {split.counts[-1]} parts (split=True)"] = size
        for each in self.tried:
            way = each.way
            if way.place is place and way.batch * way.accumulation == samples:
                size = least_limit(way.problem(way.for_plans, place.fused))[0]
                found[each.setup.words] = size
        fewest = sorted((size, words) for words, size in found.items() if size < least)
        yield from (f"{words}: {format_bytes(size)}" for size, words in fewest[:_MOST_LOWERED])


def _nearest(setup: TrainingSetup) -> tuple[int, float]:
    """Bytes over the limit, then the time of a sample."""
    return max(0, setup.peak_bytes - setup.limit_bytes), setup.time_per_sample_ns
