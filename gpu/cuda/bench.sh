#!/bin/bash
# Measures a card: its copy bandwidth and bf16 matmul rate, and the engine's decode, prefill and
# training on random weights of Qwen3 shapes, beside PyTorch in the same run. Prints one table.
#
#   gpu/cuda/bench.sh                          # all shapes; needs an NVIDIA GPU and Go
#   UNDERSTUDY_CUDA_SHAPES=0.6B gpu/cuda/bench.sh
#   UNDERSTUDY_TORCH=venv/bin/python gpu/cuda/bench.sh   # and PyTorch (pip install torch)
#   UNDERSTUDY_CUDA_SHAPES=tiny gpu/cuda/bench.sh        # on the emulator: shows that it runs, and no speed
set -euo pipefail
cd "$(dirname "$0")/../.."
shapes=${UNDERSTUDY_CUDA_SHAPES:-0.6B,1.7B,4B,8B}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

if [ "$shapes" = tiny ]; then
	echo "card: none, the emulator: the figures below are no speeds"
else
	command -v nvidia-smi >/dev/null || { echo "bench: no nvidia-smi: this machine has no NVIDIA GPU, nothing was measured" >&2; exit 1; }
	nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | sed 's/^/card: /'
fi
echo "date: $(date -u +%F), commit: $(git rev-parse --short HEAD), $(go version | cut -d' ' -f3)"

UNDERSTUDY_CUDA_SHAPES=$shapes go test -run - -bench '^BenchmarkCard$' -benchtime "${BENCHTIME:-3x}" -timeout 3h ./gpu/cuda |
	tee "$out/go" | sed -n '/FAIL\|panic\|bench_test/p' >&2
python=${UNDERSTUDY_TORCH:-}
if [ -n "$python" ]; then
	"$python" gpu/cuda/testdata/bench.py "$shapes" >"$out/torch"
else
	echo "bench: UNDERSTUDY_TORCH is not set: the column torch stays empty" >&2
	: >"$out/torch"
fi

# Lines of both are: name ... value unit. Figures with a ratio in the last column are ours / PyTorch's.
awk '
	function name(s) { sub(/^BenchmarkCard\//, "", s); sub(/-[0-9]+$/, "", s); return s }
	FILENAME ~ /torch$/ { torch[$1] = $2; next }
	/^BenchmarkCard/ {
		key = name($1)
		for (i = 3; i < NF; i++) if ($(i+1) ~ /^(GB\/s|TFLOP\/s|tokens\/s)$/) { figure[key] = $i; unit[key] = $(i+1) } else if ($(i+1) == "%MFU") mfu[key] = $i
		order[++n] = key
	}
	END {
		printf "%-34s %12s %-9s %12s %7s\n", "what", "understudy", "", "torch", "ratio"
		for (i = 1; i <= n; i++) {
			k = order[i]
			if (!(k in figure)) continue
			printf "%-34s %12.1f %-9s %12s %7s%s\n", k, figure[k], unit[k], (k in torch ? sprintf("%.1f", torch[k]) : "-"),
				(k in torch && torch[k] > 0 ? sprintf("%.2f", figure[k] / torch[k]) : "-"), (k in mfu ? sprintf("  %.1f %% MFU", mfu[k]) : "")
		}
	}' "$out/torch" "$out/go"
