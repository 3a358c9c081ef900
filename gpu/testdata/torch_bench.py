"""Training steps of PyTorch eager, for BenchmarkTraining of gpu/bench_test.go.

    venv/bin/python gpu/testdata/torch_bench.py THREADS

The same shape, batch and work as there: a Qwen3 of width 256 and 6 layers, four
sequences of 256 tokens, forward, backward, clipping, AdamW. For each line that it
reads it makes a step and prints the seconds it took.
"""

import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(1)
model = Qwen3ForCausalLM(Qwen3Config(
    vocab_size=4096, hidden_size=256, intermediate_size=768, num_hidden_layers=6, num_attention_heads=4,
    num_key_value_heads=2, head_dim=64, max_position_embeddings=512, tie_word_embeddings=True)).float()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randint(0, 4096, (4, 256))


def step():
    optimizer.zero_grad()
    model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


step()
for _ in sys.stdin:
    start = time.perf_counter()
    step()
    print(time.perf_counter() - start, flush=True)
