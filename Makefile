# `make` alone lists the targets. `make test` needs Go and make; scripts/need installs the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Packages that also run under the race detector, in short form: those whose tests share memory between goroutines, the
# slowest first. The detector multiplies the run time, so not every package uses it, and not every test: see
# internal/racetest. `scripts/races` checks that races are noticed. The commands of ./cmd/penstock run
# the server of ./internal/server in processes of their own: only the long suite runs them with the detector, too.
RACE_PKGS ?= ./redisstore ./memstore ./rules/live ./internal/ruledb \
	./engine ./engine/breaker ./engine/denycache ./engine/lease ./internal/held ./internal/nodebus ./internal/blocks ./internal/entitlement ./internal/trafficdb ./internal/usage ./stack ./httplimit ./grpclimit ./client ./client/grpcclient ./internal/http1 ./internal/gateway ./internal/api ./internal/grpcapi ./internal/traffic ./internal/telemetry ./internal/admin ./internal/server $(if $(PENSTOCK_TEST_LONG),./cmd/penstock)
# How long `make fuzz` runs each target.
FUZZTIME ?= 10s
# The version of `make build` and `make dist`; empty: the one that scripts/ldflags finds in git.
VERSION ?=
# Further flags for every `go test`, e.g. GOTESTFLAGS=-v.
GOTESTFLAGS ?=
# A busy machine may need more than the default of ten minutes for a package. Tests that run in parallel mostly wait, so
# more of them run than there are processors.
GOTEST = go test -timeout 30m -parallel 8

# -modfile takes the tool from tools/go.mod and runs it here, so the root module never requires it.
STATICCHECK = go tool -modfile=$(CURDIR)/tools/go.mod staticcheck
GCI = go tool -modfile=$(CURDIR)/tools/go.mod gci
import_groups = --skip-generated -s standard -s default -s 'prefix(github.com/penstock-io/penstock)'

# Modules to check and test, and files that may not exist yet. Compiling the collector takes minutes, so only the long
# suite, whose test of traces runs it, checks it.
modules  := . $(patsubst %/go.mod,%,$(wildcard bench/go.mod tools/go.mod)) $(if $(PENSTOCK_TEST_LONG),tools/collector)
race      = $(strip $(foreach p,$(RACE_PKGS),$(if $(wildcard $(p)/*_test.go),$(p))))
scripts  := $(wildcard scripts/*) .ci/run
go_files = $(shell find . -name node_modules -prune -o -name "*.go" -print)

.PHONY: help
help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r t d; do printf '  %-12s %s\n' "$$t" "$$d"; done

.PHONY: console
console: ## check and build the web console, if Node is installed; the binary embeds it
	@scripts/console

.PHONY: build
build: console ## write bin/penstock, console included
	CGO_ENABLED=0 go build -trimpath -ldflags "$$(scripts/ldflags $(VERSION))" -o bin/penstock ./cmd/penstock

.PHONY: dist
dist: console ## write the archives of a release to dist/: binaries, completions, man pages, SBOMs, checksums, provenance
	@go -C tools run ./dist -root .. -out ../dist $(if $(VERSION),-version $(VERSION))
	@cd dist && cat checksums.txt

.PHONY: packages
packages: dist ## build the deb and the rpm for amd64 and arm64 into dist/, with nfpm
	@VERSION=$(VERSION) scripts/packages dist

.PHONY: image
image: dist ## build the image penstock:dev for amd64 and arm64 from dist/, with buildah
	@VERSION=$(VERSION) scripts/image dist localhost/penstock:dev

.PHONY: run
run: build ## serve with sample rules in front of a demo upstream; its data is in bin/demo
	@bin/penstock serve --demo --data-dir bin/demo

.PHONY: demo
demo: build ## the same with generated traffic, so that the console has something to show
	@bin/penstock serve --demo --traffic --data-dir bin/demo

.PHONY: needs
needs: ## find or install redis-server and postgres and, if possible, the tools of further tests and checks
	@scripts/need redis-server postgres luacheck shellcheck gcc nginx nginx-lua caddy haproxy ab promtool chromium tmux protoc buildah runc python-frameworks $(if $(PENSTOCK_TEST_LONG),lintian rpm debootstrap)
	@$(if $(PENSTOCK_TEST_LONG),scripts/traefik)

.PHONY: check
check: lint tidy ## lint, tidy, and check that the generated files are current
	@echo "generated files" && scripts/generate --check

.PHONY: lint
lint: bin/lint ## formatting, go vet, staticcheck, tools/lint, shellcheck (luacheck runs as a test of redisstore)
	@echo "gofmt, gci" && unformatted=$$(gofmt -l $(go_files); $(GCI) list $(import_groups) $(go_files)); \
		[[ -z $$unformatted ]] || { echo "not formatted (make format):"; echo "$$unformatted"; exit 1; }
	@for m in $(modules); do (cd $$m && echo "vet, staticcheck, lint: $$m" && go vet ./... && $(STATICCHECK) ./... && go vet -vettool=$(CURDIR)/bin/lint ./...); done
	@if command -v shellcheck >/dev/null; then shellcheck $(scripts); else echo "note: shellcheck is not installed; scripts not checked"; fi

bin/testlog: tools/go.mod tools/go.sum $(wildcard tools/testlog/*.go tools/internal/jsonl/*.go)
	@cd tools && go build -o ../bin/testlog ./testlog

bin/lint: tools/go.mod tools/go.sum $(wildcard tools/lint/*.go)
	@cd tools && go build -o ../bin/lint ./lint

.PHONY: format
format: ## gofmt, and imports in three groups: std, third party, Penstock
	@gofmt -w $(go_files)
	@$(GCI) write $(import_groups) $(go_files) 2>/dev/null

.PHONY: tidy
tidy: ## check that `go mod tidy` changes nothing, if its modules can be downloaded
	@echo "go mod tidy" && scripts/tidy $(modules)

.PHONY: generate
generate: ## write the generated files: Go code of proto/, references in docs/
	@scripts/generate

.PHONY: docs
docs: ## build the site of docs/ into bin/docs/VERSION, with npm, and check its links; scripts/docs serve shows it
	@VERSION=$(VERSION) scripts/docs

.PHONY: vuln
vuln: ## check for known vulnerabilities; prints a note if the database cannot be reached
	@scripts/vuln $(modules)

# What takes longest starts first. Servers and waiting tests leave processors idle, so two packages more than there are
# processors run at once.
first = $(wildcard ./redisstore ./e2e ./e2e/survive ./cmd/penstock ./clients ./e2e/packaging ./storetest ./memstore ./internal/server ./internal/ruledb ./deploy ./rules)
jobs  = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))

# $(call gotest,NAME,ARGUMENTS) runs go test without vet, which lint has run. If TESTLOG names a folder, the results are
# kept there, in the file NAME.
TESTLOG ?=
gotest = $(GOTEST) -p $(jobs) -vet=off $(GOTESTFLAGS)$(if $(TESTLOG), -json) $(2)$(if $(TESTLOG), | $(CURDIR)/bin/testlog -to $(abspath $(TESTLOG))/$(1))

.PHONY: test
test: needs check console $(if $(TESTLOG),bin/testlog) ## check, then every test of every module, and RACE_PKGS once more under the race detector
	@echo "test: ." && $(call gotest,root,$(first) ./...)
	@for m in $(filter-out .,$(modules)); do (cd $$m && echo "test: $$m" && $(call gotest,$${m//\//-},./...)); done
ifneq ($(race),)
	@if [[ $$(go env CGO_ENABLED) == 1 ]]; then echo "race: $(race)"; $(call gotest,race,-race -short $(race)); \
	else echo "note: no C compiler; not run under the race detector: $(race)"; fi
endif

# Packages whose tests all start a server or an installed program.
SERVER_PKGS = /e2e|/deploy$$|/clients$$|/redisstore$$|/internal/(redistest|pgtest|ruleredis)$$

.PHONY: unit
unit: ## the tests that need nothing installed, in short form, for quick feedback
	@PENSTOCK_TEST_UNIT=1 $(GOTEST) -short $(GOTESTFLAGS) $$(go list ./... | grep -vE '$(SERVER_PKGS)')

.PHONY: test-long
test-long: export PENSTOCK_TEST_LONG = 1
test-long: GOTESTFLAGS += -timeout 0
test-long: test ## the same with the long versions of the tests and no time limit

.PHONY: test-faults
test-faults: export PENSTOCK_TEST_LONG = 1
test-faults: export PENSTOCK_TEST_CAMPAIGN ?= 5000
test-faults: export PENSTOCK_TEST_FAULTS = $(CURDIR)/bin/faults.md
test-faults: needs ## break Redis, its network, nodes and clocks under load, one after the other; a table of what clients notice
	@go test -count=1 -timeout 60m -v $(GOTESTFLAGS) ./e2e/faults
	@cat bin/faults.md

.PHONY: bench
bench: needs ## compare with other limiters on this machine; BENCH="-only redis -repeat 3" for a part
	@scripts/need wrk
	cd bench && go run . $(BENCH)

.PHONY: bench-readme
bench-readme: ## write the benchmark tables of the README and the docs from bench/results
	cd bench && go run . -readme

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s) each
	@scripts/fuzz $(FUZZTIME)

# The packages of `make mutants`, and the mutants of each; MUTATE takes further flags, such as -seed 2.
PKG ?= ./algorithm ./httplimit ./engine ./rules ./memstore ./internal/http1 ./redisstore
N ?= 150

.PHONY: mutants
mutants: ## change PKG in N places, one at a time, and list the changes that its tests do not notice; hours, resumable
	@go -C tools build -o ../bin/mutate ./mutate
	@bin/mutate -n $(N) $(MUTATE) $(PKG)

.PHONY: clean
clean: ## remove what builds and tests leave behind
	rm -rf bin dist *.test *.out *.prof
	go clean -testcache
