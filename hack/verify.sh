#!/usr/bin/env bash
# Checks the tree, and changes nothing: "format" checks that it is formatted, which takes a
# second, "modules" that its modules are tidy, and "generated" that its generated files are
# fresh.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "verify: $*" >&2; exit 1; }

format() {
  local unformatted
  unformatted=$(gofmt -l $(git ls-files -co --exclude-standard '*.go'))
  [ -z "$unformatted" ] || fail "not formatted, run gofmt -w on:"$'\n'"$unformatted"
}

# test/interop/vault/server, test/charts and hack/release are omitted: their dependencies are
# downloaded only for building them.
modules() {
  local module
  for module in . hack/tools examples/external-issuer venafi test/interop/zlint test/interop/approverpolicy test/interop/approverpolicy/oracle test/interop/acme test/acmeclients test/acmesuites test/acmesuites/pebble test/browser test/interop/stepca test/interop/certmanagerwebhook test/interop/trustmanager test/interop/vault; do
    (cd "$module" && go mod tidy -diff >/dev/null) || fail "$module/go.mod is not tidy: run 'go mod tidy' there"
  done
}

# Generate in a copy, so that a failed check leaves the tree as it was.
generated() {
  local file
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  git ls-files -co --exclude-standard -z | tar --null --files-from=- -cf - | tar -xf - -C "$copy"
  (cd "$copy" && hack/generate.sh)
  for file in $(git ls-files -co --exclude-standard '*zz_generated*' internal/generated examples/external-issuer/deploy/crds docs/controllers.md deploy/helm deploy/kustomize); do
    cmp -s "$file" "$copy/$file" || fail "$file is stale: run 'make generate' and commit the result"
  done
}

for part in "$@"; do
  "$part"
done
