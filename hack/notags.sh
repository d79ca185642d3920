#!/usr/bin/env bash
# Checks that the program has only with their build tag what few need: the
# libraries of clouds, tokens and Venafi servers.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "notags: $*" >&2; exit 1; }

# Whole lists: "grep -q" at the end of a pipe would end what is before it early.
plain=$(go list -deps ./cmd/certplane)
venafi=$(go list -deps -tags venafi ./cmd/certplane)

for library in github.com/Venafi/vcert github.com/aws/aws-sdk-go-v2/service/kms cloud.google.com/go/kms github.com/Azure/azure-sdk-for-go github.com/miekg/pkcs11; do
  ! grep -q "^$library" <<<"$plain" || fail "the program has $library without a build tag"
done
grep -q '^github.com/Venafi/vcert' <<<"$venafi" || fail "the tag venafi adds no vcert"
