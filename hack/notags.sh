#!/usr/bin/env bash
# Checks that the program has only with their build tag what few need: the
# libraries of clouds, tokens and Venafi servers.
set -euo pipefail
cd "$(dirname "$0")/.."

packages() { go list -deps "$@" ./cmd/certplane; }

for library in github.com/Venafi/vcert github.com/aws/aws-sdk-go-v2/service/kms cloud.google.com/go/kms github.com/Azure/azure-sdk-for-go github.com/miekg/pkcs11; do
  if packages | grep -q "^$library"; then
    echo "notags: the program has $library without a build tag" >&2
    exit 1
  fi
done
packages -tags venafi | grep -q '^github.com/Venafi/vcert' || { echo "notags: the tag venafi adds no vcert" >&2; exit 1; }
