"""Makes the golden files of gpu/golden_test.go with PyTorch and transformers.

    python -m venv venv && venv/bin/pip install torch transformers safetensors
    venv/bin/python gpu/testdata/golden.py

For a tiny Qwen3 (norms of queries and keys, tied head) and a tiny Llama
(stretched rotation, own head), all in float64: random weights, logits of two
sequences, the gradient of every parameter for an uneven loss on log-probabilities
and entropies, and ten losses of AdamW with warm-up, cosine and clipping.
"""

import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = pathlib.Path(__file__).parent
SHAPE = dict(
    vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2,
    attn_implementation="eager",
)
QWEN3 = Qwen3ForCausalLM, Qwen3Config(**SHAPE, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
LLAMA = LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=False, rope_parameters={
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16})


def loss_of(model, sequences, weights):
    """Sum over targets of -weight*logprob - weight/20*entropy."""
    loss, at = 0.0, 0
    for s in sequences:
        logp = torch.log_softmax(model(torch.tensor([s])).logits[0, :-1], -1)
        w = torch.tensor(weights[at:at + len(s) - 1], dtype=torch.float64)
        at += len(s) - 1
        entropy = -(logp.exp() * logp).sum(-1)
        loss = loss - (w * logp[torch.arange(len(s) - 1), s[1:]]).sum() - (w / 20 * entropy).sum()
    return loss


def train(model, sequences, weights, updates=10, warmup=3, lr=2e-2, low=2e-3):
    norms = [p for p in model.parameters() if p.dim() == 1]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8)

    def rate(n):
        if n < warmup:
            return (n + 1) / warmup
        return low / lr + (1 - low / lr) * (1 + math.cos(math.pi * (n - warmup) / (updates - warmup))) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses, norms = [], []
    for _ in range(updates):
        optimizer.zero_grad()
        loss = loss_of(model, sequences, weights)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        schedule.step()
        losses.append(float(loss))
    return losses, norms


def main():
    for name, (kind, config) in {"qwen3": QWEN3, "llama": LLAMA}.items():
        torch.manual_seed(7)
        model = kind(config).float()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.15)
        folder = HERE / f"golden_{name}"
        folder.mkdir(exist_ok=True)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)

        model = model.double()
        sequences = [torch.randint(0, 48, (n,)).tolist() for n in (23, 40)]
        weights = [0.02 + 0.03 * math.sin(i) for i in range(sum(map(len, sequences)) - 2)]
        logits = torch.cat([model(torch.tensor([s])).logits[0] for s in sequences])
        loss_of(model, sequences, weights).backward()
        tensors = {"grad." + n: p.grad.float().contiguous() for n, p in model.named_parameters()}
        tensors["logits"] = logits.detach().float().contiguous()
        save_file(tensors, folder / "golden.safetensors")
        losses, norms = train(model, sequences, weights)
        text = {"sequences": sequences, "weights": weights, "losses": losses, "norms": norms}
        (folder / "golden.json").write_text(json.dumps(text) + "\n")
        print(name, losses)


if __name__ == "__main__":
    main()
