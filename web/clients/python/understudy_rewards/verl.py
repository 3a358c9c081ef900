"""verl: a ``compute_score`` for ``custom_reward_function``.

Both eras of the configuration name the same function: ``custom_reward_function``
and, from 2026 on, ``reward.custom_reward_function``, each with ``path``, ``name``
and ``reward_kwargs``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Mapping

from understudy_rewards.client import Client
from understudy_rewards.place import metrics_of, score_texts


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **reward_kwargs: Any,
) -> dict[str, float]:
    """Score one REHEARSE output.

    The place is ``extra_info["understudy"]``, else ``ground_truth``. ``score`` is
    the calibration term; an output without a verdict has the term 0, which adds
    nothing, and ``masked`` 1. ``reward_kwargs`` are those of :class:`Client`, and
    ``checkpoint``.
    """
    info = extra_info or {}
    place = info.get("understudy", ground_truth)
    options = dict(reward_kwargs)
    checkpoint = options.pop("checkpoint", info.get("global_steps"))
    score = score_texts(Client(**options), [place], [solution_str], checkpoint)[0]
    metrics = metrics_of(score)
    return {"score": metrics["term"], **metrics}


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **reward_kwargs: Any,
) -> dict[str, float]:
    """The same for verl's asynchronous reward loop: samples are scored side by side."""
    return await asyncio.to_thread(
        compute_score, data_source, solution_str, ground_truth, extra_info, **reward_kwargs
    )
