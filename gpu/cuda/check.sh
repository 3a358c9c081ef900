#!/bin/bash
# Runs the tests of the CUDA device on this machine's card: every operation against the reference, logits,
# gradients and ten losses of AdamW against PyTorch's and so the CPU's, probability ratio 1, cuBLASLt's
# products on matrices of ones; then compute-sanitizer over the operations. Prints what passed.
#
#   gpu/cuda/check.sh                                    # needs an NVIDIA GPU and Go; the sanitizer comes with the toolkit
#   UNDERSTUDY_CUDA_SHAPES=tiny gpu/cuda/check.sh        # on the emulator: shows that the script runs, and nothing of a card
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0

# report prints a line of the summary: what, and how it ended.
report() { printf '%-44s %s\n' "$1" "$2"; }

# step runs a command in a package's folder, as go test does, and reports it.
step() {
	local what=$1 folder=$2
	shift 2
	if (cd "$folder" && "$@") >"$out/log" 2>&1; then
		report "$what" "passed ($(grep -c '^ *--- PASS' "$out/log") passed, $(grep -c '^ *--- SKIP' "$out/log") skipped)"
		grep -o 'not on a card: .*' "$out/log" | sort | uniq -c # why tests were skipped
	else
		report "$what" "FAILED"
		failed=1
		grep -v '^ *--- PASS\|^=== ' "$out/log" | tail -40
	fi
}

tests='TestOperations|TestMMAProducts|TestProductsInBF16|TestRowsKeepTheirBits|TestAttendPagedManyRows|TestGraphs|TestAdamWWithHalfMoments|TestHeadsAreOne|TestFewRowsOfThreeWeights|TestJoinedOverSharedMemory'
if [ "${UNDERSTUDY_CUDA_SHAPES:-}" = tiny ]; then
	echo "card: none, the emulator: nothing below is said of a card"
	all=(-test.run 'TestGraphs|TestOnes') engine=(-test.run 'TestGolden/qwen3_cuda')
else
	if ! command -v nvidia-smi >/dev/null; then
		echo "check: no nvidia-smi: this machine has no NVIDIA GPU, nothing was checked" >&2
		exit 1
	fi
	nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | sed 's/^/card: /'
	export UNDERSTUDY_CUDA=driver
	all=(-test.timeout 1h) engine=(-test.timeout 1h -test.run 'TestGolden|TestRatioIsOne|TestGeneratedIsOnPolicy|TestHalfMoments|TestTree')
fi
echo "date: $(date -u +%F), commit: $(git rev-parse --short HEAD), $(go version | cut -d' ' -f3)"
go test -c -o "$out/cuda.test" ./gpu/cuda && go test -c -o "$out/gpu.test" ./gpu || exit 1

step "operations, products, graphs" gpu/cuda "$out/cuda.test" -test.v "${all[@]}"
step "logits, gradients, losses, ratio 1" gpu "$out/gpu.test" -test.v "${engine[@]}"

sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)
for tool in memcheck racecheck synccheck initcheck; do
	if [ -z "${UNDERSTUDY_CUDA:-}" ]; then
		report "compute-sanitizer $tool" "not run: there is no card"
	elif [ -z "$sanitizer" ]; then
		report "compute-sanitizer $tool" "NOT RUN: there is no compute-sanitizer, which comes with the CUDA toolkit (cuda-sanitizer)"
		failed=1
	else
		step "compute-sanitizer $tool" gpu/cuda "$sanitizer" --tool "$tool" --error-exitcode 1 --target-processes all \
			"$out/cuda.test" -test.v -test.timeout 3h -test.parallel 1 -test.run "$tests"
	fi
done
exit $failed
