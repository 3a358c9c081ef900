#!/bin/bash
# Measures a card: its copy bandwidth and bf16 matmul rate, and the engine's decode, prefill and
# training on random weights of Qwen3 shapes, beside PyTorch in the same run. Prints one table, with the
# share of what the card can do and whether that is what is aimed at: decode by the bytes that a token needs
# and what copy moved in this run, prefill and training by the products' operations. The table comes whatever fails or
# is stopped on the way, with what was measured until then; what was not is said.
#
#   gpu/cuda/bench.sh                          # all shapes, as many as 540 seconds are enough for
#   UNDERSTUDY_CUDA_SHAPES=0.6B gpu/cuda/bench.sh        # some: 0.6B, 1.7B, 4B, 8B
#   UNDERSTUDY_CUDA_SECONDS=7200 gpu/cuda/bench.sh       # another limit
#   UNDERSTUDY_TORCH=venv/bin/python gpu/cuda/bench.sh   # PyTorch of another python than python3; "no" for none
#   UNDERSTUDY_CUDA_TESTS=tests gpu/cuda/bench.sh        # without Go: with what check.sh build made elsewhere
#   UNDERSTUDY_CUDA_SHAPES=tiny gpu/cuda/bench.sh        # on the emulator: shows that it runs, and no speed
set -uo pipefail # a part's tee ends well
tool=bench
. "$(dirname "$0")/card.sh"
shapes=${UNDERSTUDY_CUDA_SHAPES:-0.6B,1.7B,4B,8B}
sheet=0 judged=1 # TFLOP/s in bfloat16, dense, as NVIDIA states them
: >"$out/go"
: >"$out/torch"
missing=()

# table prints what there is, also when the script is told to stop.
table() {
	awk -v sheet="$sheet" -v judged="$judged" -f gpu/cuda/bench.awk "$out/torch" "$out/go"
	sed -n 's/^ *--- \(SKIP\|FAIL\): BenchmarkCard\/\([^ ]*\).*/not measured: \2, for the reason above/p' "$out/go"
	[ ${#missing[@]} = 0 ] || printf 'not measured: %s\n' "${missing[@]}"
	rm -rf "$out"
}

# part runs a program in a folder, and adds what it measures to a column's file.
part() {
	local what=$1 folder=$2 file=$3 status=0 before
	shift 3
	if [ "$SECONDS" -ge "$limit" ]; then
		missing+=("$what: $limit seconds were up (UNDERSTUDY_CUDA_SECONDS)")
		return
	fi
	echo "$tool: $what, for at most $((limit - SECONDS)) seconds" >&2
	before=$(told "$file")
	(limited "$folder" "$@") 2>&1 | tee -a "$file" >&2 &
	wait $! || status=$?
	if stopped $status; then
		missing+=("$what, or the rest of it: $limit seconds were up (UNDERSTUDY_CUDA_SECONDS)")
	elif [ $status != 0 ]; then
		missing+=("$what, or a part of it: it failed, as said above")
	elif [ "$(told "$file")" = "$before" ]; then
		missing+=("$what: it ended well, and told no figure")
	fi
}

# told counts the figures of a column's file, and those that it is said are not measured.
told() { grep -c '^BenchmarkCard[^ ]*[[:space:]]\+[0-9]\|^[^ ]* [0-9.e+-]*$\|^ *--- SKIP' "$1"; }

# both measures one part so many times, on the device and in PyTorch: the benchmarks of a pattern, and bench.py's of a name.
both() {
	part "$1 on the device" gpu/cuda "$out/go" env UNDERSTUDY_CUDA_SHAPES="$shapes" \
		"$tests/cuda.test" -test.v -test.run - -test.timeout 0 -test.benchtime "$2" -test.bench "^BenchmarkCard\$/$3"
	[ -z "$python" ] || part "$1 in PyTorch" . "$out/torch" env PYTHONUNBUFFERED=1 "$python" gpu/cuda/testdata/bench.py "$4"
}

for shape in ${shapes//,/ }; do
	case $shape in
	0.6B | 1.7B | 4B | 8B | tiny) ;;
	*) die "UNDERSTUDY_CUDA_SHAPES=$shapes: there are 0.6B, 1.7B, 4B and 8B, and tiny for the emulator" ;;
	esac
done
find_tests
python=$torch
if [ "$python" = no ] || ! briefly "$python" -c 'import torch' 2>/dev/null; then
	echo "$tool: no PyTorch in $python (UNDERSTUDY_TORCH is a python that has it): the column torch stays empty" >&2
	python=
fi
if [ "$shapes" = tiny ]; then
	judged=0
	echo "card: none, the emulator: the figures below are no speeds"
else
	export UNDERSTUDY_CUDA=driver
	find_wheels
	find_card "nothing was measured"
	case $card in
	*H100*PCIe*) sheet=756 ;;
	*H100* | *H200*) sheet=989 ;;
	*A100*) sheet=312 ;;
	*) echo "$tool: the data sheet of this card is not known here: no share of it" >&2 ;;
	esac
fi
trap table EXIT
trap 'stop; missing+=("the rest: the script was told to stop"); exit 1' INT TERM HUP
if [ "$shapes" = tiny ]; then
	both "the emulator" 3x "" card,tiny
else
	both "the card" 30x '^(copy|matmul)$' card
	for shape in ${shapes//,/ }; do both "$shape" 3x "^$shape\$" "$shape"; done
fi
[ ${#missing[@]} = 0 ]
