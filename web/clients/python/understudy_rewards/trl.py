"""TRL: a reward function for ``GRPOTrainer(reward_funcs=[...])``."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .client import Client
from .place import number_of, score_texts, text_of


class CalibrationReward:
    """A reward function that asks the service once for a whole batch.

    The data set's column ``understudy`` holds the places. The result has None for
    every output without a verdict, which TRL leaves out of the baseline.

    Args:
        client: the service; by default the one of the environment variables.
        value: ``term`` (default) or ``phi``.
        column: name of the column with the places.
    """

    def __init__(self, client: Client | None = None, value: str = "term", column: str = "understudy") -> None:
        self.client = client
        self.value = value
        self.column = column
        self.__name__ = "calibration_reward"  # TRL logs reward functions by name

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Any] | None = None,
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Score a batch of completions."""
        places = columns.get(self.column)
        if places is None:
            raise ValueError(f"the data set has no column {self.column!r}")
        client = self.client or Client()
        step = getattr(trainer_state, "global_step", None)
        scores = score_texts(client, places, [text_of(said) for said in completions], step)
        numbers = [number_of(score, self.value) for score in scores]
        if log_metric is not None and numbers:
            log_metric("calibration/masked", sum(n is None for n in numbers) / len(numbers))
            log_metric("calibration/false_success", sum(bool(s["false_success"]) for s in scores) / len(scores))
        return numbers


def calibration_reward(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """:class:`CalibrationReward` with its defaults, as a plain function."""
    return CalibrationReward()(prompts=prompts, completions=completions, **columns)
