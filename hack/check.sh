#!/usr/bin/env bash
# Checks the packages that have changed since a revision, in BASE: format, modules, vet,
# staticcheck, and the tests that start no server. Without BASE, checks changes that are not
# pushed or not committed. Changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
base=$(git merge-base HEAD "${BASE:-@{upstream\}}" 2>/dev/null || git rev-parse HEAD)
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard)
hack/verify.sh format

# Prints the folder of the module of a file.
module() {
  local dir=$1
  until [ "$dir" = . ] || [ -e "$dir/go.mod" ]; do dir=$(dirname "$dir"); done
  echo "$dir"
}

declare -A modules=() packages=()
for file in "${changed[@]}"; do
  case $file in
    *.go) in=$(module "$(dirname "$file")"); modules[$in]=1; [ "$in" != . ] || packages[./$(dirname "$file")]=1 ;;
    *go.mod | *go.sum) modules[$(dirname "$file")]=1 ;;
  esac
done
for in in "${!modules[@]}"; do
  (cd "$in" && $go mod tidy -diff >/dev/null) || { echo "check: $in/go.mod is not tidy: run 'go mod tidy' there" >&2; exit 1; }
  [ "$in" = . ] || (cd "$in" && $go vet ./...)
done
if [ ${#packages[@]} -eq 0 ]; then
  echo "check: no package has changed since $base"
  exit
fi
$go vet "${!packages[@]}"
$go tool -modfile=hack/tools/go.mod staticcheck "${!packages[@]}"
$go test -short -vet=off -timeout 2m ./internal/archtest "${!packages[@]}"
