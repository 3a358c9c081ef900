# What check.sh and bench.sh share, which source this: the tests' programs, the time that a command may take, and the
# card. They set tool, their name.

start=$PWD # what arguments are relative to
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
out=$(mktemp -d) || exit 1
limit=${UNDERSTUDY_CUDA_SECONDS:-540} # of a command, with all of its steps

# die ends the script with a reason.
die() {
	echo "$tool: $*" >&2
	exit 1
}

# build makes the tests' programs in a folder, and says of which source they are.
build() {
	command -v go >/dev/null ||
		die "there is no Go here. Where there is: gpu/cuda/check.sh build FOLDER; bring that folder, and name it in UNDERSTUDY_CUDA_TESTS"
	echo "$tool: building the tests" >&2
	mkdir -p "$1"
	go test -c -o "$1/cuda.test" ./gpu/cuda && go test -c -o "$1/gpu.test" ./gpu || die "the tests do not build"
	local commit
	commit=$(git describe --always --dirty 2>/dev/null) || commit="not known"
	echo "commit $commit, $(go version | cut -d' ' -f3)" >"$1/built"
}

# find_tests sets tests, the folder of the tests' programs, which are those of UNDERSTUDY_CUDA_TESTS or built now.
find_tests() {
	tests=${UNDERSTUDY_CUDA_TESTS:-}
	if [ -z "$tests" ]; then
		tests=$out/tests
		build "$tests"
	fi
	tests=$(cd "$start" && cd "$tests" 2>/dev/null && pwd) && [ -x "$tests/cuda.test" ] ||
		die "UNDERSTUDY_CUDA_TESTS=$UNDERSTUDY_CUDA_TESTS holds no tests: make them with gpu/cuda/check.sh build FOLDER"
	echo "date: $(date -u +%F), $(cat "$tests/built" 2>/dev/null || echo "commit not known")"
}

# find_wheels lets the device find the cuBLASLt of PyTorch's wheels, where a python has them.
find_wheels() {
	local python=$1 folders
	folders=$("$python" -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))' 2>/dev/null) || return 0
	[ -z "$folders" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders"
}

# find_card prints the cards that the driver has, and sets card, the first one's line; without one the script ends.
find_card() {
	if ! (cd gpu/cuda && "$tests/cuda.test" -test.v -test.run '^TestThisCard$') >"$out/card.log" 2>&1; then
		grep -v '^=== \|^FAIL\|^ *--- ' "$out/card.log" | head -5 >&2
		die "this machine has no NVIDIA GPU that its driver knows of: $1"
	fi
	sed -n 's/^.*\(card [0-9]*: .*\)$/\1/p' "$out/card.log"
	card=$(sed -n 's/^.*card 0: //p' "$out/card.log")
	! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version,memory.used --format=csv,noheader 2>&1 | sed 's/^/nvidia-smi: /'
}

# limited runs a command for what is left of the limit; 124 when it was stopped.
limited() {
	local left=$((limit - SECONDS)) status=0
	[ "$left" -gt 0 ] || return 124
	if command -v timeout >/dev/null; then
		timeout -k 10 "$left" "$@" &
	else
		"$@" &
	fi
	echo $! >"$out/running"
	wait $! || status=$?
	[ $status != 137 ] || status=124 # it had to be killed
	return $status
}

# stop ends what runs.
stop() { kill "$(cat "$out/running")" 2>/dev/null; }
