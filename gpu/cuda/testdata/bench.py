"""What bench.sh measures, in PyTorch: one line a figure, "name value".

    python bench.py card,0.6B,1.7B,4B,8B     # on a GPU: its limits, and models;  python bench.py card,tiny  # anywhere: shows that it runs

Decode has a static cache and a CUDA graph of the whole step; training has bfloat16 autocast over float32 weights, fused
AdamW and gradient checkpointing, as the engine's.
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"

# layers, width, hidden, query heads, key heads, head width, vocabulary, tied
SHAPES = {
    "0.6B": (28, 1024, 3072, 16, 8, 128, 151936, True),
    "1.7B": (28, 2048, 6144, 16, 8, 128, 151936, True),
    "4B": (36, 2560, 9728, 32, 8, 128, 151936, True),
    "8B": (36, 4096, 12288, 32, 8, 128, 151936, False),
    "tiny": (1, 16, 32, 2, 1, 16, 64, True),
}


def sync():
    if GPU:
        torch.cuda.synchronize()


def seconds(f, times=3):
    f()
    sync()
    began = time.perf_counter()
    for _ in range(times):
        f()
    sync()
    return (time.perf_counter() - began) / times


class Layer(torch.nn.Module):
    def __init__(self, width, hidden, h, g, d):
        super().__init__()
        self.h, self.g, self.d = h, g, d
        linear = lambda n, k: torch.nn.Linear(k, n, bias=False)
        self.q, self.k, self.v, self.o = linear(h * d, width), linear(g * d, width), linear(g * d, width), linear(width, h * d)
        self.gate, self.up, self.down = linear(hidden, width), linear(hidden, width), linear(width, hidden)
        self.norm1, self.norm2, self.qnorm, self.knorm = (torch.nn.RMSNorm(n, eps=1e-6) for n in (width, width, d, d))

    def forward(self, x, angles, cache=None, at=None, mask=None):  # x (B,T,C)
        b, t, _ = x.shape
        n = self.norm1(x)
        q = turn(self.qnorm(self.q(n).view(b, t, self.h, self.d)), angles)
        k = turn(self.knorm(self.k(n).view(b, t, self.g, self.d)), angles)
        v = self.v(n).view(b, t, self.g, self.d)
        if cache is not None:
            keys, values = cache
            keys.index_copy_(1, at, k.to(keys.dtype))
            values.index_copy_(1, at, v.to(values.dtype))
            k, v = keys, values
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2).to(q.dtype), v.transpose(1, 2).to(q.dtype),
                                           attn_mask=mask, is_causal=cache is None, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


def turn(x, angles):  # x (B,T,heads,D), angles (T,D/2)
    cos, sin = angles.cos()[:, None, :].to(x.dtype), angles.sin()[:, None, :].to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Model(torch.nn.Module):
    def __init__(self, layers, width, hidden, h, g, d, vocab, tied):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, width)
        self.layers = torch.nn.ModuleList(Layer(width, hidden, h, g, d) for _ in range(layers))
        self.norm, self.head = torch.nn.RMSNorm(width, eps=1e-6), torch.nn.Linear(width, vocab, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.register_buffer("rates", 1e6 ** (-torch.arange(0, d, 2) / d), persistent=False)

    def angles(self, positions):
        return positions[:, None].float() * self.rates.float()

    def forward(self, tokens, save=False):
        x, angles = self.embed(tokens), self.angles(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = checkpoint(layer, x, angles, use_reentrant=False) if save else layer(x, angles)
        return self.norm(x)


@torch.inference_mode()
def decode(model, shape, batch, context):
    layers, _, _, _, g, d, vocab, _ = shape
    kind = torch.bfloat16
    caches = [tuple(torch.zeros(batch, context, g, d, dtype=kind, device=DEVICE) for _ in range(2)) for _ in range(layers)]
    tokens = torch.zeros(batch, 1, dtype=torch.long, device=DEVICE)
    at = torch.full((1,), context - 1, dtype=torch.long, device=DEVICE)

    def step():
        x, angles = model.embed(tokens), model.angles(at)
        for layer, cache in zip(model.layers, caches):
            x = layer(x, angles, cache, at)
        logits = model.head(model.norm(x[:, -1])).float()
        u = torch.empty_like(logits).exponential_()
        tokens.copy_((logits.softmax(-1) / u).argmax(-1, keepdim=True))  # draws as multinomial does, within a graph

    if not GPU:
        return batch / seconds(step)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return batch / seconds(graph.replay, 50)


def train(model, vocab, tokens, each):
    model.float().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=GPU)
    data = torch.randint(vocab, (tokens // each, each), device=DEVICE)

    def step():
        with torch.autocast(DEVICE, torch.bfloat16):
            x = model(data, save=True)[:, :-1].reshape(-1, model.embed.embedding_dim)
            target, loss = data[:, 1:].reshape(-1), 0
            for part, want in zip(x.split(1024), target.split(1024)):
                loss = loss + checkpoint(lambda p, w: F.cross_entropy(model.head(p).float(), w, reduction="sum"), part, want, use_reentrant=False)
        (loss / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return tokens / seconds(step)


def limits(tiny):
    n = 1 << (16 if tiny else 29)
    x = torch.zeros(n, device=DEVICE)
    y = torch.empty_like(x)
    print("copy", 8 * n / seconds(lambda: y.copy_(x), 10) / 1e9, flush=True)
    n = 32 if tiny else 8192
    a = torch.randn(n, n, device=DEVICE).bfloat16()
    print("matmul/fast", 2 * n**3 / seconds(lambda: a @ a.T, 10) / 1e12, flush=True)


def main():
    names = sys.argv[1].split(",")
    tiny = "tiny" in names
    if not GPU and not tiny:
        sys.exit("bench.py: this PyTorch sees no GPU, and what it does on a processor is not measured")
    if "card" in names:
        limits(tiny)
        names.remove("card")
    for name in names:
        shape = SHAPES[name]
        torch.manual_seed(1)
        with torch.device(DEVICE):
            model = Model(*shape).bfloat16().eval()
        vocab = shape[6]
        prompts = torch.randint(vocab, (8, 24 if tiny else 600), device=DEVICE)
        with torch.inference_mode():
            print(f"{name}/prefill", prompts.numel() / seconds(lambda: model.head(model(prompts)[:, -1])), flush=True)
        for batch in (1, 8, 16) if tiny else (1, 64, 256):
            try:
                rate = decode(model, shape, batch, 64 if tiny else 736)
                for shared in (1, 8) if batch % 8 == 0 else (1,):
                    print(f"{name}/decode/batch={batch}/shared={shared}", rate, flush=True)  # it shares nothing
            except torch.cuda.OutOfMemoryError:
                pass
        try:
            print(f"{name}/train", train(model, vocab, 32 if tiny else 8192, 16 if tiny else 1024), flush=True)
        except torch.cuda.OutOfMemoryError:
            print(f"{name}: training does not fit", file=sys.stderr)
        del model
        if GPU:
            torch.cuda.empty_cache()


main()
