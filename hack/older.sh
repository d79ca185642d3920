#!/usr/bin/env bash
# Builds an older version of certplane: PROGRAM [REVISION]. Without a revision it is the
# last release before this one.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1
if [ $# -gt 1 ]; then
  revision=$2
elif ! revision=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 'HEAD^' 2>/dev/null); then
  echo "there is no release before this version: name a revision, FROM=REVISION" >&2
  exit 1
fi

sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
git archive "$revision" | tar -x -C "$sources"
mkdir -p "$(dirname "$program")"
cd "$sources"
go build -trimpath -tags=netgo -o "$program" ./cmd/certplane
echo "built $program of $revision"
