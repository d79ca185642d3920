#!/usr/bin/env bash
# Checks that the program does not contain libraries that few users need: those of clouds
# and tokens, which have build tags, and that of Venafi servers, which is in another module.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "notags: $*" >&2; exit 1; }

# Uses whole lists: "grep -q" at the end of a pipe would end the other commands early.
plain=$(go list -deps ./cmd/certplane)

for library in github.com/Venafi/vcert github.com/aws/aws-sdk-go-v2/service/kms cloud.google.com/go/kms github.com/Azure/azure-sdk-for-go github.com/miekg/pkcs11; do
  ! grep -q "^$library" <<<"$plain" || fail "the program has $library"
done
