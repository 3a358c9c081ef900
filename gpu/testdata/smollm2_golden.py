"""Writes gpu/testdata/smollm2_golden.json: token ids and logits that transformers
computes in float32 on the weights that smollm2.py made.

    pip install torch transformers && python3 gpu/testdata/smollm2_golden.py FOLDER

For each text: its ids, and at every position the five largest logits, with their ids, and
the sum of exponentials (log); then, for the chat prompts, what greedy decoding says.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = [
    "The capital of France is Paris, and the capital of Italy is",
    'def total(items):\n    return sum(item["price"] for item in items)\n',
    '{"order_id": "#W0001017", "status": "pending", "total": 129.50}',
    "Größe, naïve café, Ελλάδα, 中文, 2026-11-29",
]
CHATS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "What is 2 + 2?",
]

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
torch.set_num_threads(1)


def logits(ids):
    with torch.no_grad():
        values = model(torch.tensor([ids])).logits[0].double()
    top = values.topk(5)
    return {
        "ids": ids,
        "top": top.indices.tolist(),
        "logits": [[round(v, 4) for v in row] for row in top.values.tolist()],
        "lse": [round(v, 4) for v in values.logsumexp(-1).tolist()],
    }


golden = {"texts": [], "chats": []}
for text in TEXTS:
    golden["texts"].append({"text": text, **logits(tokenizer(text)["input_ids"])})
for question in CHATS:
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(prompt)["input_ids"]
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False)[0, len(ids) :].tolist()
    golden["chats"].append({"prompt": prompt, "ids": ids, "greedy": out, "answer": tokenizer.decode(out)})
    print(repr(golden["chats"][-1]["answer"]))

path = pathlib.Path(__file__).parent / "smollm2_golden.json"
lines = json.dumps(golden, ensure_ascii=False)
path.write_text(lines.replace(', {"text"', ',\n{"text"').replace('{"prompt"', '\n{"prompt"') + "\n", encoding="utf-8")
