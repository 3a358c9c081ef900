"""OpenRLHF: a ``reward_func`` for ``--reward.remote_url .../openrlhf.py``.

Without Python, ``--reward.remote_url URL/v1/score/openrlhf`` asks the service
itself, which answers in OpenRLHF's shape.
"""

from __future__ import annotations

from typing import Any, Sequence

from understudy_rewards.client import Client
from understudy_rewards.place import metrics_of, score_texts


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
    """Score REHEARSE outputs whose labels are their places.

    ``rewards`` are calibration terms, 0 where there is no verdict; ``scores`` are
    in [0, 1], for filtering. One sample gives scalars, several give lists, and
    tensors where torch is there.
    """
    for i, (query, prompt) in enumerate(zip(queries, prompts)):
        if not query.startswith(prompt):  # scored whole, it would be a false rehearsal
            raise ValueError(f"query {i} does not begin with its prompt: apply the chat template before")
    texts = [query[len(prompt) :] for query, prompt in zip(queries, prompts)]
    scores = score_texts(Client(), labels, texts)
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
