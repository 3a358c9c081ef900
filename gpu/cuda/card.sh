# What check.sh and bench.sh share, which source this: the tests' programs, the time that a command may take, and the
# card. They set tool, their name.

unset CDPATH # with it cd goes elsewhere, and prints where
start=$PWD   # what arguments are relative to
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
out=$(mktemp -d) || exit 1
limit=${UNDERSTUDY_CUDA_SECONDS:-540} # of a command, with all of its steps
torch=${UNDERSTUDY_TORCH:-python3}    # the python of PyTorch and of its wheels
case $torch in
/*) ;;
*/*) torch=$start/$torch ;;
esac

# die ends the script with a reason.
die() {
	echo "$tool: $*" >&2
	exit 1
}

# stop ends what runs in the background.
stop() {
	local running
	running=$(jobs -p)
	[ -z "$running" ] || kill $running 2>/dev/null # each is a word
	wait
}

trap 'rm -rf "$out"' EXIT
trap 'stop; die "told to stop"' INT TERM HUP
case $limit in
*[!0-9]*) die "UNDERSTUDY_CUDA_SECONDS=$limit is no number of seconds" ;;
esac
limit=$((10#$limit))
command -v timeout >/dev/null || die "there is no timeout, which is of coreutils and ends what hangs"

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
	tests=$(cd "$start" && cd "$tests" 2>/dev/null && pwd) && [ -x "$tests/cuda.test" ] && [ -x "$tests/gpu.test" ] ||
		die "UNDERSTUDY_CUDA_TESTS=$UNDERSTUDY_CUDA_TESTS holds no tests: make them with gpu/cuda/check.sh build FOLDER"
	echo "date: $(date -u +%F), $(cat "$tests/built" 2>/dev/null || echo "commit not known")"
}

# briefly runs for a minute at most what answers in seconds, or hangs with a card or a disk; 124: it hung.
briefly() { timeout --foreground -k 5 60 "$@"; }

# find_wheels lets the device find the cuBLASLt of PyTorch's wheels, where there are some.
find_wheels() {
	local python=$torch folders
	[ "$python" != no ] || python=python3
	folders=$(briefly "$python" -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))' 2>/dev/null) || return 0
	[ -z "$folders" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders"
}

# find_card prints the cards that the driver has, and sets card, the first one's line; without one the script ends.
find_card() {
	local status=0 answer
	(cd gpu/cuda && briefly "$tests/cuda.test" -test.v -test.run '^TestThisCard$') >"$out/card.log" 2>&1 || status=$?
	card=$(sed -n 's/^.*card 0: //p' "$out/card.log")
	if [ $status != 0 ] || [ -z "$card" ]; then
		grep -v '^=== \|^FAIL\|^ *--- ' "$out/card.log" | head -5 >&2
		[ $status != 124 ] || die "the card's driver did not answer in a minute: $1"
		! grep -q 'no CUDA device' "$out/card.log" || die "this machine has no NVIDIA GPU that its driver knows of: $1"
		die "TestThisCard of $tests/cuda.test ended with $status and this machine's card is not known: $1"
	fi
	sed -n 's/^.*\(card [0-9]*: .*\)$/\1/p' "$out/card.log"
	! command -v nvidia-smi >/dev/null || {
		answer=$(briefly nvidia-smi --query-gpu=name,driver_version,memory.used --format=csv,noheader 2>&1) || answer+=" (it ended with $?; 124: it did not answer)"
		echo "nvidia-smi: $answer"
	}
}

# limited becomes a program in a folder, which is stopped when the limit is reached.
limited() {
	local left=$((limit - SECONDS))
	[ "$left" -gt 0 ] || exit 124
	cd "$1" || exit
	shift
	exec timeout -k 10 "$left" "$@"
}

# stopped says whether a program that ended so was stopped: 124, or killed as it did not end by itself.
stopped() { [ "$1" = 124 ] || { [ "$1" = 137 ] && [ "$SECONDS" -ge "$limit" ]; }; }
