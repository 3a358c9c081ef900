"""Writes gpu/safetensors/testdata/reference.safetensors with the reference
implementation, for the test that reading and writing keeps every byte.

    pip install safetensors torch numpy && python3 gpu/testdata/safetensors_golden.py
"""

import pathlib

import torch
from safetensors.torch import save_file

folder = pathlib.Path(__file__).parent.parent / "safetensors" / "testdata"
count = torch.arange(12, dtype=torch.float32)
save_file(
    {
        "embed.weight": (count.reshape(3, 4) / 8 - 0.5).to(torch.bfloat16),
        "norm.weight": count[:3].to(torch.float16) / 3,
        "wide": torch.linspace(-1, 1, 5, dtype=torch.float64),
        "head.bias": count[:5] - 2.25,
        "ids": torch.tensor([[2**40, -1]], dtype=torch.int64),
        "mask": torch.tensor([True, False, True]),
        "empty": torch.zeros(0, 7),
        "scalar": torch.tensor(3.5),
        'na"me \u00fc<&>': torch.tensor([1], dtype=torch.uint8),
    },
    folder / "reference.safetensors",
    metadata={"format": "pt"},
)
