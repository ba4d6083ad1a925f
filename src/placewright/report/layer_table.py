"""Table of layers by device: a guide to apply the plan by hand."""

from __future__ import annotations

from placewright.analysis.layers import LayerPlacement, place_layers
from placewright.plans.record import Plan
from placewright.report.markup import Markup, cell, element, joined, number, table
from placewright.support.quantities import format_time_ns

#: With more devices than this, one column names the devices with the largest shares.
MAX_COLUMNS = 8
MAX_ROWS = 40
_MAX_NAMED = 3
#: Class of columns that are hidden on a phone.
_WIDE = "number where-wide"


def layers_section(plan: Plan) -> Markup:
    """Build a row per layer and a column per device; nothing if one device runs everything or no op has a module."""
    layers = place_layers(plan)
    if len({op.device for op in plan.ops}) < 2 or not layers:
        return Markup()
    listed = set(sorted(range(len(layers)), key=lambda index: -sum(layers[index].time_ns))[:MAX_ROWS])
    total = sum(plan.metrics.busy_ns) or 1
    rows = [_row(plan, layer, total) for index, layer in enumerate(layers) if index in listed]
    if len(layers) > MAX_ROWS:
        more = f"and {len(layers) - MAX_ROWS:,} layers with less time"
        rows.append(element("tr", cell(more, colspan=4 + len(_device_headings(plan)), class_="muted")))
    headings = [("Layer", ""), ("Ops", _WIDE), ("Time", _WIDE), ("Of all", "number"), *_device_headings(plan)]
    return element(
        "section",
        element("h2", "Layers by device", id="layers-heading"),
        element("p", _summary(plan, layers), class_="note lead"),
        element("div", table(headings, rows, "Share of each layer's time on each device"), class_="scroll tall layers"),
        aria_labelledby="layers-heading",
    )


def _summary(plan: Plan, layers: tuple[LayerPlacement, ...]) -> str:
    """State the share of the plan's time that a placement of whole layers would keep."""
    total = sum(plan.metrics.busy_ns) or 1
    whole = sum(sum(layer.time_ns) for layer in layers if layer.device >= 0)
    if whole == total:
        return "Every layer runs on one device."
    return (
        f"{whole / total:.0%} of the computing time is in layers that stay on one device (nine tenths of it or more); "
        "to give a divided layer to one device makes another plan, with other times."
    )


def _device_headings(plan: Plan) -> list[tuple[str, str]]:
    devices = plan.machine.devices
    return [(device.name, "share") for device in devices] if len(devices) <= MAX_COLUMNS else [("Devices", "")]


def _row(plan: Plan, layer: LayerPlacement, total: int) -> Markup:
    time = sum(layer.time_ns)
    weights = layer.time_ns if time else layer.num_ops
    shares = [weight / sum(weights) for weight in weights]
    return element(
        "tr",
        element("th", layer.name, scope="row", class_="layer"),
        cell(f"{sum(layer.num_ops):,}", class_=_WIDE),
        cell(format_time_ns(time), class_=_WIDE),
        number(f"{time / total:.1%}"),
        *(map(_share_cell, shares) if len(shares) <= MAX_COLUMNS else [cell(_largest(plan, shares))]),
    )


def _share_cell(share: float) -> Markup:
    """Build a cell for a share; the larger the share, the deeper its background."""
    if share == 0:
        return cell("\u2013", class_="share muted")
    told = f"{share:.0%}" if share >= 0.005 else "<1%"
    return cell(told, class_="share", style=f"--share:{share:.2f}")


def _largest(plan: Plan, shares: list[float]) -> Markup:
    """List the largest shares: "gpu3 61%, gpu7 20% and 5 more"."""
    ordered = sorted((device for device, share in enumerate(shares) if share), key=lambda device: -shares[device])
    named = ", ".join(f"{plan.machine.devices[device].name} {shares[device]:.0%}" for device in ordered[:_MAX_NAMED])
    more = f" and {len(ordered) - _MAX_NAMED} more" if len(ordered) > _MAX_NAMED else ""
    return joined([named, more])
