#!/usr/bin/env bash
# Builds the Vault of this folder as the file that it is given.
#
# Vault is built with the SDK in its own source tree, which its module does not
# contain. The published SDK differs in the type of one field, which is changed in
# a copy of it here, outside of the repository.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")"

go mod download github.com/hashicorp/vault/sdk
sdk=$(go list -m -f '{{.Dir}}' github.com/hashicorp/vault/sdk)
copy=$out.sdk
rm -rf "$copy"
cp -r "$sdk" "$copy"
chmod -R u+w "$copy"
field='ActivationFunc func(context.Context, \*logical.Request'
sed -i "s/$field, string) error/$field) error/" "$copy/framework/backend.go"
grep -q "$field) error" "$copy/framework/backend.go" || { echo "build.sh: $sdk is not as expected" >&2; exit 1; }

cp go.mod "$copy.mod"
cp go.sum "$copy.sum"
go mod edit -replace="github.com/hashicorp/vault/sdk=$copy" "$copy.mod"
go build -modfile="$copy.mod" -o "$out" "${@:2}" .
rm -rf "$copy" "$copy.mod" "$copy.sum"
