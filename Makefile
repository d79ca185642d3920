# Two commands do everything: "make demo" shows the program, "make test" tests it.

GO ?= go
export CGO_ENABLED = 0
# The same flags everywhere, so that build, tests and checks share what is compiled.
# Builds without cgo have Go's own resolver anyway. With its tag, the package net is
# the same in builds with cgo, and what imports it is not compiled again for those.
TAGS = netgo
# Without symbols and DWARF, programs and tests are a third smaller, and linked sooner.
# Stack traces need neither; a debugger does: "make build LDFLAGS=".
LDFLAGS = -s
export GOFLAGS := $(GOFLAGS) -trimpath -tags=$(TAGS) $(if $(LDFLAGS),-ldflags=$(LDFLAGS))

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

# "make verify" vets all of it. Tests wait for servers more than they compute, so
# more packages run at a time than there are processors; the slowest begin first.
.PHONY: test
test: ## Run all tests
	$(GO) test -vet=off -p 4 -timeout 20m ./test/... ./internal/policies ./internal/run/server ./...
	cd examples/external-issuer && $(GO) test -vet=off ./...

# Tests that compile variants of the program, need other programs, or take long. A target
# whose compiler or program is missing fails, or prints what it does not test.
.PHONY: test-all
test-all: test test-race test-three-steps test-upgrade test-kms test-pkcs11 test-venafi test-acme-clients test-browser interop hostile test-charts test-package test-release ## Run every test there is, before a release; it takes hours
	$(MAKE) test-slow SLOW=$(or $(SLOW),short)

.PHONY: test-race
test-race: ## Run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 40m ./...
	cd examples/external-issuer && CGO_ENABLED=1 $(GO) test -race -vet=off ./...

# Requests that are answered in the calls that create them go another way.
.PHONY: test-three-steps
test-three-steps: ## Test with requests that are approved and signed only after they are stored
	CERTPLANE_TEST_THREE_STEPS=1 $(GO) test -count=1 -vet=off -p 4 -timeout 20m ./internal/policies ./internal/run/server ./internal/apiserver/registry/... ./internal/controller/... \
	  ./internal/admission/... ./internal/issuing/outcome/... ./internal/client/explain/... ./internal/client/cli/... ./internal/agent/... ./internal/issuing/certmetrics/... ./issuer/...
	$(GO) test -count=1 -vet=off -timeout 20m ./test/crash -three-steps

# The older version is a tag or any other revision: without FROM, the last release. If there
# is none, the test says so.
FROM ?= $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null)
OLDER = $(CURDIR)/bin/older/certplane

.PHONY: test-upgrade
test-upgrade: ## Test that this version takes over the data folder of an older one (FROM=v1.2.3)
	$(if $(FROM),hack/older.sh $(OLDER) $(FROM))
	CERTPLANE_OLDER=$(if $(FROM),$(OLDER)) $(GO) test -count=1 -vet=off -v -run TestUpgrade ./test/script

# cgo is for those builds alone that speak to a token. Their users and groups are
# looked up as without cgo: the tag is for them what netgo is.
.PHONY: test-pkcs11
test-pkcs11: ## Test CA keys on a PKCS#11 token (needs a C compiler and SoftHSM)
	CGO_ENABLED=1 $(GO) vet -tags pkcs11,osusergo,$(TAGS) ./internal/keystore/...
	CGO_ENABLED=1 $(GO) test -tags pkcs11,osusergo,$(TAGS) ./internal/keystore/...

.PHONY: test-kms
test-kms: ## Test CA keys in the cloud's key management services
	$(GO) vet -tags awskms,cloudkms,azurekms,$(TAGS) ./internal/keystore/...
	$(GO) test -tags awskms,cloudkms,azurekms,$(TAGS) ./internal/keystore/...

.PHONY: venafi
venafi: ## Build bin/certplane-venafi, which has Venafi issuers in addition
	cd venafi && $(GO) build -o $(CURDIR)/bin/certplane-venafi .

.PHONY: test-venafi
test-venafi: ## Test Venafi issuers, which are a module of their own
	cd venafi && $(GO) vet ./... && $(GO) test -vet=off ./...

# Where the real Kubernetes components are: the ecosystem's convention.
KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/peers
KUBERNETES_VERSION = $(shell cd test/interop && $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)

.PHONY: interop
interop: bin/peers bin/peers/approver-policy bin/peers/vault bin/peers/cert-manager-controller bin/peers/cert-manager-cainjector bin/peers/cert-manager-webhook bin/peers/cmctl bin/peers/trust-manager test-interop ## Test against real Kubernetes components, cert-manager, trust-manager and a real Vault, which it builds

.PHONY: test-interop
test-interop: build ## Test against zlint, approver-policy, and real Kubernetes components where they are found
	cd test/interop/zlint && $(GO) test -count=1 -vet=off ./...
	cd test/interop/approverpolicy && $(GO) test -count=1 -vet=off -timeout 15m ./...
	cd test/interop/acme && $(GO) vet ./... && $(GO) test -count=1 -vet=off -timeout 40m ./...
	cd test/interop/stepca && $(GO) vet ./... && $(GO) test -count=1 -vet=off ./...
	cd test/interop/vault && $(GO) vet ./... && KUBEBUILDER_ASSETS=$(KUBEBUILDER_ASSETS) $(GO) test -count=1 -vet=off -timeout 30m -v ./...
	cd test/interop && CERTPLANE=$(CURDIR)/bin/certplane KUBEBUILDER_ASSETS=$(KUBEBUILDER_ASSETS) $(GO) test -count=1 -timeout 60m -v ./...

# Programs are installed where that is possible; clients that cannot be had are not tested.
.PHONY: test-acme-clients
test-acme-clients: test-acme-programs test-acme-suites ## Test the ACME server with certbot, lego, Caddy, cert-manager and others, which it installs
	cd test/interop/acme && $(GO) test -count=1 -vet=off -timeout 10m -run TestOwnServer .

.PHONY: test-acme-programs
test-acme-programs: build
	test/acmeclients/install.sh $(CURDIR)/bin/peers
	cd test/acmeclients && $(GO) test -count=1 -vet=off -timeout 15m -v -certplane $(CURDIR)/bin/certplane -peers $(CURDIR)/bin/peers .

.PHONY: test-acme-suites
test-acme-suites: build ## Test the ACME server with the suites of client libraries
	cd test/acmesuites && $(GO) test -count=1 -vet=off -timeout 15m -v -certplane $(CURDIR)/bin/certplane .

# Chromium and axe-core are installed where that is possible. What cannot be had is not tested.
AXE = $(CURDIR)/bin/browser/axe.min.js

.PHONY: test-browser
test-browser: build ## Test the console in Chromium, which it installs
	test/browser/install.sh $(CURDIR)/bin/browser
	cd test/browser && $(GO) test -count=1 -vet=off -timeout 10m -v -certplane $(CURDIR)/bin/certplane -axe $(AXE) .

# The full values take an hour or more; SLOW=short takes a few minutes.
SLOW_short = -shares 10 -requests 2000 -delay 3s -away 1m
SLOW_full = -shares 5,10,25 -requests 50000,200000 -delay 20s -away 10m

.PHONY: test-slow
test-slow: build ## Test the program with little of a processor, much to read, a slow webhook and an etcd that is away
	$(GO) test -count=1 -vet=off -timeout 4h -v ./test/slow -certplane $(CURDIR)/bin/certplane $(SLOW_$(or $(SLOW),full))

.PHONY: screenshots
screenshots: build ## Make the pictures of docs/console.md, with Chromium
	test/browser/install.sh $(CURDIR)/bin/browser
	cd test/browser && $(GO) test -count=1 -vet=off -timeout 10m -run TestScreenshots -certplane $(CURDIR)/bin/certplane -screenshots $(CURDIR)/docs/images .

bin/peers:
	cd test/interop && $(GO) build -o $(CURDIR)/bin/peers/ -ldflags "-X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" tool
	$(GO) build -o $(CURDIR)/bin/peers/etcd go.etcd.io/etcd/server/v3

bin/peers/approver-policy: test/interop/approverpolicy/go.mod | bin/peers
	cd test/interop/approverpolicy && $(GO) build -o $(CURDIR)/bin/peers/approver-policy github.com/cert-manager/approver-policy/cmd

bin/peers/cert-manager-controller: $(addprefix test/interop/acme/,go.mod certmanager/certmanager.go certmanager/program/main.go certmanager/program/lead.go) | bin/peers
	cd test/interop/acme && $(GO) build -o $(CURDIR)/$@ ./certmanager/program

bin/peers/cert-manager-cainjector: $(addprefix test/interop/acme/,go.mod certmanager/cainjector/main.go) | bin/peers
	cd test/interop/acme && $(GO) build -o $(CURDIR)/$@ ./certmanager/cainjector

bin/peers/cert-manager-webhook: $(addprefix test/interop/certmanagerwebhook/,go.mod main.go) | bin/peers
	cd test/interop/certmanagerwebhook && $(GO) build -o $(CURDIR)/$@ .

bin/peers/cmctl: $(addprefix test/interop/approverpolicy/,go.mod cmctl/main.go) | bin/peers
	cd test/interop/approverpolicy && $(GO) build -o $(CURDIR)/$@ ./cmctl

bin/peers/trust-manager: $(addprefix test/interop/trustmanager/,go.mod main.go) | bin/peers
	cd test/interop/trustmanager && $(GO) build -o $(CURDIR)/$@ .

bin/peers/pebble: $(addprefix test/interop/acme/,go.mod pebble/main.go) | bin/peers
	cd test/interop/acme && $(GO) build -o $(CURDIR)/$@ ./pebble

bin/peers/step-ca: $(addprefix test/interop/stepca/,go.mod program/main.go) | bin/peers
	cd test/interop/stepca && $(GO) build -o $(CURDIR)/$@ ./program

# It takes minutes, and is built again only if its sources change.
bin/peers/vault: $(addprefix test/interop/vault/server/,go.mod go.sum main.go build.sh discover/discover.go) | bin/peers
	test/interop/vault/server/build.sh bin/peers/vault

# Each kill is followed by a start, which is most of the time.
KILLS ?= 100
FOR ?= 24h
SEED ?= 0

.PHONY: chaos
chaos: ## Kill servers under load, over and over (KILLS=100 FOR=24h SEED=0)
	$(GO) test -count=1 -v -timeout 0 -run TestChaos ./test/crash -kills $(KILLS) -for $(FOR) -seed $(SEED)

.PHONY: chaos-acme
chaos-acme: ## Kill a server at the steps of ACME orders, over and over (KILLS=100 SEED=0)
	$(GO) test -count=1 -v -timeout 0 -run TestKillDuringOrder ./test/crash -acme-kills $(KILLS) -seed $(SEED)

.PHONY: chaos-acme-server
chaos-acme-server: ## Kill one of two servers at the writes of orders of ACME clients, over and over (KILLS=100), place 1,000 orders without affinity, clean up after 10,000, and take the store away for a minute
	$(GO) test -count=1 -v -timeout 0 -run 'TestKillAtWritesOfOrders|TestOrdersWithoutAffinity' ./test/crash -acme-server-kills $(KILLS) -acme-orders 1000
	$(GO) test -count=1 -v -timeout 0 -run TestOutageOfStore ./test/crash -outage 60s
	$(GO) test -count=1 -v -timeout 0 -run TestManyOrders ./internal/controller/acmeclean -acme-orders 10000

.PHONY: chaos-inventory
chaos-inventory: ## Kill the recorder of a cluster before and after each of its writes (KILLS=100)
	$(GO) test -count=1 -v -timeout 0 -run TestKilled ./internal/controller/record -kills $(KILLS)

.PHONY: hostile
hostile: ## Attack a server in every way, with floods that take all of a machine
	CERTPLANE_HOSTILE_LONG=1 $(GO) test -count=1 -v -timeout 20m ./test/hostile

.PHONY: release
release: ## Make the files of a release of the current commit in dist (VERSION=v1.2.3)
	cd hack/release && GOFLAGS= $(GO) run . -version "$(VERSION)" -out $(CURDIR)/dist

.PHONY: test-release
test-release: release ## Make a release twice, compare both, and unpack, install and run its files
	cd hack/release && GOFLAGS= $(GO) run . -version "$(VERSION)" -out $(CURDIR)/bin/release-again
	cd hack/release && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -count=1 -v -args -dist $(CURDIR)/dist -other $(CURDIR)/bin/release-again

.PHONY: test-charts
test-charts: build ## Test the Helm chart and the kustomization with the libraries of Helm and kustomize
	cd test/charts && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -count=1 -vet=off -certplane $(CURDIR)/bin/certplane .

# A package is tried as a commit has it: commit first.
.PHONY: test-package
test-package: ## Install the Debian package in a fresh Debian root, and run its service there (needs root and mmdebstrap)
	cd hack/release && GOFLAGS= $(GO) run . -here -version "$(VERSION)" -out $(CURDIR)/bin/package
	cd hack/release && $(GO) test -count=1 -v -run TestFreshDebian -args -dist $(CURDIR)/bin/package -fresh

.PHONY: fuzz
fuzz: ## Run each fuzz target for a while (FUZZTIME=30s)
	hack/fuzz.sh

.PHONY: generate
generate: ## Make the generated files again
	hack/generate.sh

.PHONY: lint
lint: ## Look for mistakes
	$(GO) vet ./...
	cd test/interop && $(GO) vet ./...
	cd test/interop/zlint && $(GO) vet ./...
	cd test/interop/approverpolicy && $(GO) vet ./... github.com/cert-manager/approver-policy/pkg/certplaneoracle
	cd test/interop/trustmanager && $(GO) vet ./...
	cd test/interop/certmanagerwebhook && $(GO) vet ./...
	cd test/acmeclients && $(GO) vet ./...
	cd test/acmesuites && $(GO) vet ./... && cd pebble && $(GO) vet ./...
	cd test/browser && $(GO) vet ./...
	cd examples/external-issuer && $(GO) vet ./...
	$(GO) tool $(TOOLS) staticcheck $$($(GO) list ./... | grep -v /generated/)

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities, if Go's database of them can be reached
	hack/vulncheck.sh

# What takes a second refuses first.
.PHONY: verify
verify: ## Check format and modules, look for mistakes, and check that generated files are fresh
	hack/verify.sh format modules
	hack/notags.sh
	$(MAKE) lint vulncheck
	hack/verify.sh generated

.PHONY: check
check: ## Check what has changed, before a commit (BASE=main)
	GO=$(GO) hack/check.sh

.PHONY: bench
bench: build ## Measure rate, CPU and memory, beside what "make bench-peers" has built
	KUBEBUILDER_ASSETS=$(KUBEBUILDER_ASSETS) $(GO) run ./bench $(BENCHFLAGS) bin/certplane

# The older program is of the commit before, or of the last commit if the tree has changes.
.PHONY: bench-guard
bench-guard: BASE ?= $(if $(shell git status --porcelain),HEAD,HEAD~1)
bench-guard: build ## Fail if a certificate costs 10 % more CPU than in the commit before (BASE=HEAD~1); ten minutes
	hack/older.sh $(OLDER) $(BASE)
	KUBEBUILDER_ASSETS=$(KUBEBUILDER_ASSETS) $(GO) run ./bench -guard 5 -before $(OLDER) -parts three-step,one-write,kubernetes,certificates,acme \
	  -rounds 64:3000 -certificates 300 -rsa-certificates 0 -acme-orders 300 -settle 1s $(BENCHFLAGS) bin/certplane

.PHONY: bench-peers
bench-peers: bin/peers bin/peers/cert-manager-controller bin/peers/step-ca bin/peers/pebble ## Build Kubernetes, cert-manager, step-ca and Pebble for "make bench"; it takes minutes

.PHONY: bench-acme
bench-acme: build ## Measure 1,000 Certificates from Pebble by HTTP-01
	cd test/interop/acme && $(GO) test -vet=off -run '^$$' -bench Certificates -benchtime 1x -timeout 40m -certplane $(CURDIR)/bin/certplane $(BENCHFLAGS) .

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14
