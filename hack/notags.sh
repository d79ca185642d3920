#!/usr/bin/env bash
# Checks that the program does not have what few need: the libraries of clouds and
# tokens, which have build tags, and that of Venafi servers, which another module has.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "notags: $*" >&2; exit 1; }

# Whole lists: "grep -q" at the end of a pipe would end what is before it early.
plain=$(go list -deps ./cmd/certplane)

for library in github.com/Venafi/vcert github.com/aws/aws-sdk-go-v2/service/kms cloud.google.com/go/kms github.com/Azure/azure-sdk-for-go github.com/miekg/pkcs11; do
  ! grep -q "^$library" <<<"$plain" || fail "the program has $library"
done
