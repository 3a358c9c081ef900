"""SkyRL: an environment of one step, the REHEARSE output itself.

Register it with ``register(id="understudy", entry_point="understudy_rewards.skyrl:RehearsalEnv")``.
"""

from __future__ import annotations

from typing import Any, Mapping

from .client import Client
from .place import metrics_of, place_of, score_texts

try:  # SkyRL checks the base class; without it the environment is the same
    from skyrl_gym.envs.base_text_env import BaseTextEnv as _Base
except ImportError:  # pragma: no cover - depends on what is installed
    _Base = object


class RehearsalEnv(_Base):
    """The action is a rehearsal, the reward its calibration term.

    The row's ``understudy`` (in ``extras``, or in its ``extra_info`` or
    ``reward_spec``) is the place. A rehearsal without a verdict has the reward 0,
    which adds nothing, and ``metadata["masked"]``.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        if _Base is not object:
            super().__init__()
        extras = extras or {}
        nested = [extras, extras.get("extra_info") or {}, extras.get("reward_spec") or {}]
        found = next((rows["understudy"] for rows in nested if "understudy" in rows), None)
        self.place = place_of(found)
        self.checkpoint = extras.get("global_step")
        option = env_config.get if isinstance(env_config, Mapping) else lambda name: getattr(env_config, name, None)
        self.client = Client(url=option("url"), token=option("token"), policy=option("policy"))

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        """Begin: the prompt is the row's own."""
        return prompt, {}

    def step(self, action: str) -> dict[str, Any]:
        """Score the rehearsal and end."""
        score = score_texts(self.client, [self.place], [action], self.checkpoint)[0]
        metrics = metrics_of(score)
        return {"observations": [], "reward": metrics["term"], "done": True, "metadata": {**metrics, "score": dict(score)}}

    def close(self) -> None:
        """End: nothing is held."""

    def get_metrics(self) -> dict[str, Any]:
        """Metrics of the whole episode: those of its step are its own."""
        return {}
