"""slime: a function for ``--custom-rm-path understudy_rewards.slime.custom_rm``.

``--rm-type remote_rm --rm-url URL/v1/score/slime`` asks the service without it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .client import Client
from .place import metrics_of, place_of, score_texts


async def custom_rm(args: Any, sample: Any, **kwargs: Any) -> Any:
    """Score one sample, or a list of them in slime's batched path.

    The place is ``sample.metadata["understudy"]``, else ``sample.label``. The
    reward is the calibration term; a sample without a verdict gets the term 0 and
    is removed from the loss. With ``--reward-key`` it is an object with ``term``.
    """
    samples = sample if isinstance(sample, list) else [sample]
    places = [_place(s) for s in samples]
    texts = [s.response for s in samples]
    scores = await asyncio.to_thread(score_texts, Client(), places, texts, kwargs.get("rollout_id"))
    rewards: list[Any] = []
    for s, score in zip(samples, scores):
        metrics = metrics_of(score)
        if metrics["masked"]:
            s.remove_sample = True
        rewards.append(metrics if getattr(args, "reward_key", None) else metrics["term"])
    return rewards if isinstance(sample, list) else rewards[0]


def _place(sample: Any) -> dict[str, Any]:
    metadata = getattr(sample, "metadata", None) or {}
    return place_of(metadata.get("understudy", getattr(sample, "label", None)))
