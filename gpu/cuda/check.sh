#!/bin/bash
# Runs the tests of the CUDA device on this machine's card: every operation against the reference, logits,
# gradients and ten losses of AdamW against PyTorch's and so the CPU's, probability ratio 1, cuBLASLt's
# products on matrices of ones; then compute-sanitizer over the operations. A line a step as it ends: what passed, failed,
# or was not run, and why.
#
#   gpu/cuda/check.sh                                    # all steps, as many as 540 seconds are enough for
#   gpu/cuda/check.sh operations memcheck                # some: device, operations, engine, memcheck, racecheck, synccheck, initcheck
#   UNDERSTUDY_CUDA_SECONDS=20000 gpu/cuda/check.sh      # another limit
#   UNDERSTUDY_CUDA_LOGS=logs gpu/cuda/check.sh          # keep what the steps printed
#   gpu/cuda/check.sh build tests                        # on a machine with Go, for one without:
#   UNDERSTUDY_CUDA_TESTS=tests gpu/cuda/check.sh        # there, in this repository with that folder
#   UNDERSTUDY_CUDA_SHAPES=tiny gpu/cuda/check.sh        # on the emulator: shows that the script runs, and nothing of a card
#
# On a machine for half an hour, in commands of ten minutes: check.sh device operations; bench.sh; check.sh engine memcheck.
#
# It needs an NVIDIA GPU, its driver, and Go or the tests that were built; cuBLASLt, of the toolkit or of PyTorch's wheels,
# for fast mode; and compute-sanitizer, which comes with the toolkit, for the last four steps.
set -uo pipefail
tool=check
. "$(dirname "$0")/card.sh"
if [ "${1:-}" = build ]; then
	[ $# = 2 ] || die "build needs a folder: gpu/cuda/check.sh build FOLDER"
	folder=$(cd "$start" && mkdir -p "$2" && cd "$2" && pwd) || die "$2 cannot be written"
	build "$folder"
	exit
fi
logs=$out
if [ -n "${UNDERSTUDY_CUDA_LOGS:-}" ]; then
	logs=$(cd "$start" && mkdir -p "$UNDERSTUDY_CUDA_LOGS" && cd "$UNDERSTUDY_CUDA_LOGS" && pwd) || die "UNDERSTUDY_CUDA_LOGS=$UNDERSTUDY_CUDA_LOGS cannot be written"
fi
failed=0

# report prints a line of the summary: what, and how it ended.
report() { printf '%-44s %s\n' "$1" "$2"; }

# passed counts the tests of a log, and those that were skipped.
passed() { echo "$(grep -c '^ *--- PASS' "$1") passed, $(grep -c '^ *--- SKIP' "$1") skipped"; }

# step runs a program in a package's folder, as go test does, and reports it under its name.
step() {
	local what=$1 folder=$2 log="$logs/${1// /-}.log" from=$SECONDS status=0
	shift 2
	if [ "$SECONDS" -ge "$limit" ]; then
		report "$what" "NOT RUN: $limit seconds were up (UNDERSTUDY_CUDA_SECONDS)"
		failed=1
		return
	fi
	echo "$tool: $what, for at most $((limit - SECONDS)) seconds" >&2
	(limited "$folder" "$@") >"$log" 2>&1 &
	wait $! || status=$?
	local took="$((SECONDS - from)) s"
	if [ $status = 0 ] && grep -q '^ *--- PASS' "$log"; then
		report "$what" "passed in $took ($(passed "$log"))"
		grep -o 'not on a card: .*' "$log" | sort | uniq -c # why tests were skipped
		return
	fi
	failed=1
	if [ $status = 0 ]; then
		report "$what" "NOT RUN: there was no such test ($(passed "$log"))"
	elif stopped $status; then
		local last
		last=$(sed -n 's/^=== RUN *//p' "$log" | tail -1)
		report "$what" "STOPPED after $took ($(passed "$log")), ${last:+in the middle of }${last:-before its first test}"
	elif grep -q 'Device not supported' "$log"; then
		report "$what" "NOT RUN: compute-sanitizer refuses this machine's card (Device not supported)"
	else
		report "$what" "FAILED after $took ($(passed "$log"))"
		grep -v '^ *--- PASS\|^=== ' "$log" | tail -40
	fi
}

tests_of_operations='TestOperations|TestMMAProducts|TestProductsInBF16|TestRowsKeepTheirBits|TestAttendPagedManyRows|TestGraphs|TestAdamWWithHalfMoments|TestHeadsAreOne|TestFewRowsOfThreeWeights|TestJoinedOverSharedMemory'
find_tests
emulated=
if [ "${UNDERSTUDY_CUDA_SHAPES:-}" = tiny ]; then
	emulated=1
	echo "card: none, the emulator: nothing below is said of a card"
	all=(-test.run 'TestGraphs|TestOnes') engine=(-test.run 'TestGolden/qwen3_cuda')
else
	export UNDERSTUDY_CUDA=driver
	find_wheels
	find_card "nothing was checked"
	all=() engine=(-test.run 'TestGolden|TestRatioIsOne|TestManyRows|TestGeneratedIsOnPolicy|TestHalfMoments|TestTree')
fi
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)

# sanitize runs the operations under a tool of compute-sanitizer.
sanitize() {
	if [ -n "$emulated" ]; then
		report "$1" "not run: there is no card"
	elif [ -z "$sanitizer" ]; then
		report "$1" "NOT RUN: there is no compute-sanitizer, which comes with the CUDA toolkit (cuda-sanitizer)"
		failed=1
	else
		step "$1" gpu/cuda "$sanitizer" --tool "$1" --error-exitcode 1 --target-processes all \
			"$tests/cuda.test" -test.v -test.timeout 0 -test.parallel 1 -test.run "$tests_of_operations"
	fi
}

[ $# -gt 0 ] || set -- device operations engine memcheck racecheck synccheck initcheck
for name; do
	case $name in
	device) step "device: kernels load, cuBLASLt is there" gpu/cuda "$tests/cuda.test" -test.v -test.timeout 0 -test.run '^TestDeviceOpens$' ;;
	operations) step "operations, products, graphs" gpu/cuda "$tests/cuda.test" -test.v -test.timeout 0 "${all[@]}" ;;
	engine) step "logits, gradients, losses, ratio 1" gpu "$tests/gpu.test" -test.v -test.timeout 0 "${engine[@]}" ;;
	memcheck | racecheck | synccheck | initcheck) sanitize "$name" ;;
	*) die "no step is called $name: device, operations, engine, memcheck, racecheck, synccheck, initcheck, or build FOLDER" ;;
	esac
done
exit $failed
