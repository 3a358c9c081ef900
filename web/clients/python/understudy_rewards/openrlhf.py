"""OpenRLHF: a ``reward_func`` for ``--reward.remote_url .../openrlhf.py``.

Without Python, ``--reward.remote_url URL/v1/score/openrlhf`` asks the service
itself, which answers in OpenRLHF's shape.
"""

from __future__ import annotations

from typing import Any, Sequence

from understudy_rewards.client import Client
from understudy_rewards.place import batch_of, metrics_of, output_of


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
    """Score REHEARSE outputs whose labels are their places.

    ``rewards`` are calibration terms, 0 where there is no verdict; ``scores`` are
    in [0, 1], for filtering. One sample gives scalars, several give lists, and
    tensors where torch is there.
    """
    client = Client()
    outputs = [
        output_of(label, query[len(prompt) :] if query.startswith(prompt) else query)
        for query, prompt, label in zip(queries, prompts, labels)
    ]
    said = batch_of(labels[0]) if len(labels) else {}
    scores = client.score(outputs, checkpoint=said.get("checkpoint", 0), policy=said.get("policy"))
    metrics = [metrics_of(score) for score in scores]
    logs = {name: [m[name] for m in metrics] for name in ("masked", "false_success", "weight", "baseline", "phi", "term")}
    return {
        "rewards": _shape(logs["term"]),
        "scores": _shape(logs["phi"]),
        "extra_logs": {name: _shape(values) for name, values in logs.items()},
    }


def _shape(values: list[float]) -> Any:
    try:
        import torch  # OpenRLHF has it; this package does not need it
    except ImportError:
        return values[0] if len(values) == 1 else values
    return torch.tensor(values)
