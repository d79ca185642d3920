#!/usr/bin/env bash
# Looks for known vulnerabilities in the code that certplane and its example call,
# with the CA keys of every cloud built in. test/interop is omitted: only tests run
# it. GOVULNDB names another database than Go's, such as a mirror.
#
# A database that cannot be reached is not a failure: the script prints one line.
set -euo pipefail
cd "$(dirname "$0")/.."

database=${GOVULNDB:-https://vuln.go.dev}
govulncheck=$(go tool -modfile=hack/tools/go.mod -n govulncheck)
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# check DIR ARGUMENTS... ends the script if it finds something or cannot look.
check() {
  local dir=$1 code=0
  shift
  (cd "$dir" && "$govulncheck" -db "$database" "$@") >"$output" 2>&1 || code=$?
  case $code in
  0) ;;
  1)
    if reason=$(grep -m 1 -F -i -e "get \"$database" -e "get $database" "$output"); then
      echo "vulncheck: not done, because $database cannot be reached: ${reason#*: }"
      exit 0
    fi
    ;;&
  *)
    cat "$output" >&2
    exit "$code"
    ;;
  esac
}

check . -tags awskms,cloudkms,azurekms ./...
check examples/external-issuer ./...
