"""From the rows and texts of trainers to the outputs of the service."""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from .client import Client, Score

_BATCH = ("policy", "checkpoint", "run")  # of a whole batch, where a place names them


def place_of(value: Any) -> dict[str, Any]:
    """Read a place: a mapping, or its JSON text.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"the place of an output is no JSON: {error}") from error
    if not isinstance(value, Mapping):
        raise ValueError("the place of an output is missing: give the row a column 'understudy'")
    return {name: member for name, member in value.items() if member is not None}


def output_of(place: Any, text: str) -> dict[str, Any]:
    """The output that says ``text`` at a place."""
    output = {name: member for name, member in place_of(place).items() if name not in _BATCH}
    output["rehearsal"] = text
    return output


def score_texts(client: Client, places: Sequence[Any], texts: Sequence[str], checkpoint: int | None = None) -> list[Score]:
    """Score what was said at places, in order: one request where they agree.

    ``policy``, ``run`` and ``checkpoint`` of a place go before the client's; the
    checkpoint that is given, the trainer's own, goes before the place's.
    """
    batches: dict[tuple[Any, ...], list[int]] = {}
    for i, place in enumerate(places):
        said = place_of(place)
        step = said.get("checkpoint", 0) if checkpoint is None else checkpoint
        batches.setdefault((int(step), said.get("policy"), said.get("run")), []).append(i)
    scores: dict[int, Score] = {}
    for (step, policy, run), members in batches.items():
        outputs = [output_of(places[i], texts[i]) for i in members]
        scores.update(zip(members, client.score(outputs, checkpoint=step, policy=policy, run=run)))
    return [scores[i] for i in range(len(places))]


def text_of(completion: Any) -> str:
    """The text of a completion: text, or a list of chat messages."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        completion = [completion]
    return "".join(str(m.get("content") or "") for m in completion if m.get("role", "assistant") == "assistant")


def number_of(score: Score, value: str = "term") -> float | None:
    """The number of a score, ``term`` or ``phi``; None where it has none.

    ``term`` is clip(phi - baseline, -1, 1) * weight, to be added to an advantage;
    ``phi`` is the fidelity in [0, 1] itself.
    """
    if score["status"] != "scored":
        return None
    return float(score[value])


def metrics_of(score: Score) -> dict[str, float]:
    """Numbers for a trainer's log, the same members for every sample."""
    scored = score["status"] == "scored"
    return {
        "masked": 0.0 if scored else 1.0,
        "phi": float(score["phi"]) if scored else 0.5,  # 0.5 stands for "not known"
        "term": float(score["term"]) if scored else 0.0,
        "weight": float(score["weight"]),
        "baseline": float(score["baseline"]),
        "false_success": 1.0 if score["false_success"] else 0.0,
    }
