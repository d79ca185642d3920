# Two commands do everything: "make demo" shows the program, "make test" tests it.

GO ?= go
export CGO_ENABLED = 0
# The same flags everywhere, so that build, tests and checks share what is compiled.
export GOFLAGS := $(GOFLAGS) -trimpath

TOOLS = -modfile=hack/tools/go.mod

.PHONY: build
build: ## Build bin/certplane
	$(GO) build -o bin/certplane ./cmd/certplane

.PHONY: run
run: build ## Run a server that stays, with its data in .data
	bin/certplane serve --data-dir .data

.PHONY: demo
demo: build ## From request to certificate in a temporary folder
	$(GO) run ./hack/demo bin/certplane

.PHONY: test
test: ## Run all tests
	$(GO) test ./...

.PHONY: test-race
test-race: ## Run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

.PHONY: fuzz
fuzz: ## Run each fuzz target for a while (FUZZTIME=30s)
	hack/fuzz.sh

.PHONY: generate
generate: ## Make the generated files anew
	hack/generate.sh

.PHONY: lint
lint: ## Look for mistakes
	$(GO) vet ./...
	$(GO) tool $(TOOLS) staticcheck ./...

.PHONY: verify
verify: lint ## Check format, modules and that generated files are fresh
	hack/verify.sh

.PHONY: bench
bench: build ## Measure idle memory and the rate of the whole flow
	$(GO) run ./bench bin/certplane

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14
