#!/bin/bash
# Measures a card: its copy bandwidth and bf16 matmul rate, and the engine's decode, prefill and
# training on random weights of Qwen3 shapes, beside PyTorch in the same run. Prints one table, with the
# share of what the card can do and whether that is what is aimed at: decode by the bytes that a token needs
# and what copy moved in this run, prefill and training by the products' operations.
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

sheet=0 judged=1 # TFLOP/s in bfloat16, dense, as NVIDIA states them
if [ "$shapes" = tiny ]; then
	judged=0
	echo "card: none, the emulator: the figures below are no speeds"
else
	command -v nvidia-smi >/dev/null || { echo "bench: no nvidia-smi: this machine has no NVIDIA GPU, nothing was measured" >&2; exit 1; }
	card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader)
	echo "card: $card"
	case $card in
	*H100*PCIe*) sheet=756 ;;
	*H100* | *H200*) sheet=989 ;;
	*A100*) sheet=312 ;;
	*) echo "bench: the data sheet of this card is not known here: no share of it" >&2 ;;
	esac
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

awk -v sheet="$sheet" -v judged="$judged" -f gpu/cuda/bench.awk "$out/torch" "$out/go"
