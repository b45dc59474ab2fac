"""Plans as decisions write them, read back against the arms of the labels."""

from __future__ import annotations

from collections.abc import Sequence

from arms.errors import RouterError
from router.policy import Plan


def parse_plan(text: str, pipelines: Sequence[str]) -> Plan:
    """Return the plan that ``str(plan)`` wrote: one arm, or several joined by a mark.

    ``a>b`` is a cascade, ``a+b`` fused, ``a&b`` (or ``a&``) merged. An arm whose own name holds
    such a mark is recognised as one arm first.

    Raises:
        RouterError: the plan names an arm that the labels don't have.
    """
    if text in pipelines:
        return Plan((text,))
    if text.endswith("&") and text[:-1] in pipelines:
        return Plan((text[:-1],), "merge")
    for mark, combine in ((">", "cascade"), ("+", "fuse"), ("&", "merge")):
        arms = tuple(text.split(mark))
        if len(arms) > 1 and all(arm in pipelines for arm in arms):
            return Plan(arms, combine)  # type: ignore[arg-type]
    raise RouterError(
        f"a decision names the plan '{text}', labels have the arms {', '.join(pipelines)}; "
        "the decisions were made on other labels: rerun l2r train"
    )
