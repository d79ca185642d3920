#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (30s by default).
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rlE '^func Fuzz' --include='*_test.go' internal | xargs -n1 dirname | sort -u | while read -r folder; do
  grep -hoE '^func Fuzz[A-Za-z0-9]+' "$folder"/*_test.go | awk '{print $2}' | while read -r target; do
    echo "== $folder $target"
    go test "./$folder" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}"
  done
done
