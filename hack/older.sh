#!/usr/bin/env bash
# Builds an older version of certplane: PROGRAM REVISION.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1 revision=$2
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
git --no-pager log -1 --oneline "$revision"
git archive "$revision" | tar -x -C "$sources"
mkdir -p "$(dirname "$program")"
cd "$sources"
go build -trimpath -tags=netgo -o "$program" ./cmd/certplane
echo "built $program of $revision"
