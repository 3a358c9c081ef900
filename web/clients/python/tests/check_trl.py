"""Train a tiny random model with the real TRL and the service's rewards (make trl).

``UNDERSTUDY_URL`` names the service. Needs ``pip install trl``.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from understudy_rewards.trl import CalibrationReward

PLACE = {"environment": "retail-mini@1", "call": {"tool": "get_user", "arguments": {"user": "U1"}}, "policy": "trl"}
STEPS = 2


def main() -> None:
    """Train, and assert what TRL was given."""
    words = {word: i for i, word in enumerate(["<pad>", "<eos>", *'{}[]":,abcdeU123', "user", "error"])}
    text = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    text.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=text, pad_token="<pad>", eos_token="<eos>", padding_side="left")
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, head_dim=8, max_position_embeddings=64, pad_token_id=0, eos_token_id=1, bos_token_id=1,
        )
    )  # fmt: skip
    calibration = CalibrationReward()
    seen: list[tuple[str, Any]] = []

    def reward(**given: Any) -> list[float | None]:
        numbers = calibration(**given)
        seen.extend(zip([place.get("role") for place in given["understudy"]], numbers))
        return numbers

    rows = [{"prompt": "a", "understudy": PLACE}, {"prompt": "b", "understudy": {**PLACE, "role": "act"}}]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, max_steps=STEPS, per_device_train_batch_size=4, num_generations=2, max_completion_length=8,
            report_to=[], logging_steps=1, save_strategy="no", use_cpu=True, bf16=False,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=model, reward_funcs=[reward], args=config, train_dataset=Dataset.from_list(rows * 4), processing_class=tokenizer
        )
        trainer.train()
    masked = [number for role, number in seen if role == "act"]
    scored = [number for role, number in seen if role != "act"]
    assert masked and all(number is None for number in masked), masked
    assert scored and all(isinstance(number, float) and math.isfinite(number) for number in scored), scored
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == STEPS and all(map(math.isfinite, losses)), losses
    print(f"{STEPS} steps of TRL: {len(scored)} rewards, {len(masked)} None, losses {losses}")


if __name__ == "__main__":
    main()
