"""`placewright policies`: lists the policies that can guide a search."""

from __future__ import annotations

from dataclasses import asdict

from placewright.cli.options import Json
from placewright.cli.printing import print_json, print_parts


def policies(as_json: Json = False) -> int:
    """Shipped policies, and settings to train one."""
    from placewright.lab.learning.shipped import policy_summaries
    from placewright.methods.policies import family_of
    from placewright.support.quantities import signed_percent
    from placewright.terminal.tables import line, table

    found = policy_summaries()
    if as_json:
        print_json({"schema_version": 1, "policies": [asdict(policy) for policy in found]})
        return 0
    rows = [
        [
            *(policy.name, policy.objective, f"{policy.num_devices}", policy.solvers),
            signed_percent(policy.improvement_percent / 100, 2),
        ]
        for policy in found
    ]
    print_parts(table(["<policy", "<for", "devices", "<solvers", "vs brkga"], rows), "")
    print_parts(
        line("vs brkga: over uniform BRKGA at the best validation of its training"),
        *(
            line(f"settings for train {family} --config: {', '.join(family_of(family).trainings())}")
            for family in ("regal", "gdp")
        ),
    )
    return 0
