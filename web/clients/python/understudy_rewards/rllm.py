"""rLLM: an evaluator of episodes whose REHEARSE trajectories are scored step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from .client import Client
from .place import metrics_of, score_texts

try:
    from rllm.eval.types import EvalOutput, Signal
except ImportError:  # the same members, where rLLM is not installed

    @dataclass
    class Signal:  # type: ignore[no-redef]
        """A named number of an evaluation."""

        name: str
        value: float

    @dataclass
    class EvalOutput:  # type: ignore[no-redef]
        """What an evaluation found."""

        reward: float
        is_correct: bool
        signals: list[Signal] = field(default_factory=list)
        metadata: dict[str, Any] = field(default_factory=dict)


class CalibrationEvaluator:
    """Scores every step of the trajectories that are named ``rehearse``.

    A step's place is ``step.info["understudy"]``, else the task's. Steps with a
    verdict get their calibration term as ``step.reward``; the others keep theirs.
    The episode's reward is the mean term of those with a verdict.
    """

    def __init__(self, client: Client | None = None, trajectory: str = "rehearse") -> None:
        self.client = client
        self.trajectory = trajectory

    def evaluate(self, task: Any, episode: Any) -> Any:
        """Score the steps of an episode."""
        steps = [s for t in episode.trajectories if t.name == self.trajectory for s in t.steps]
        places = [_place(task, step) for step in steps]
        scores = score_texts(self.client or Client(), places, [_text(step) for step in steps])
        terms: list[float] = []
        for step, score in zip(steps, scores):
            if score["status"] == "scored":
                step.reward = float(score["term"])
                terms.append(step.reward)
        metrics = [metrics_of(score) for score in scores]
        mean = sum(terms) / len(terms) if terms else 0.0
        return EvalOutput(
            reward=mean,
            is_correct=bool(scores) and all(s.get("class") == "match" for s in scores),
            signals=[Signal(name, sum(m[name] for m in metrics) / len(metrics)) for name in ("phi", "masked", "false_success")]
            if metrics
            else [],
            metadata={"masked": not terms, "scores": [dict(s) for s in scores]},
        )


def _place(task: Any, step: Any) -> Any:
    info = getattr(step, "info", None) or {}
    if "understudy" in info:
        return info["understudy"]
    row: Mapping[str, Any] = task if isinstance(task, Mapping) else getattr(task, "metadata", None) or {}
    return row.get("understudy")


def _text(step: Any) -> str:
    said = getattr(step, "model_response", None)
    return said if isinstance(said, str) else str(getattr(step, "action", "") or "")
