#!/usr/bin/env bash
# Downloads the third-party files of the console's pages by npm. The files are committed, so
# that a build needs no npm; TestConsoleAssets checks them. Releases list them by the lines
# of hack/consoleassets.sha256 that begin with #.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.8.0
integrity=R47JBL+6jHDQvcnbppIUtXXcxi5h6+wuCEEZXnRhUltsgzPFKzThL5PuHppP9ypJuy+7WawcY1TsSBD/iQbMhw==
assets=internal/client/console/assets

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "idiomorph@$version" >/dev/null)
got=$(openssl dgst -sha512 -binary "$work/idiomorph-$version.tgz" | openssl base64 -A)
if [ "$got" != "$integrity" ]; then
  echo "consoleassets: npm's idiomorph@$version has the hash $got, want $integrity" >&2
  exit 1
fi
tar -xzf "$work/idiomorph-$version.tgz" -C "$work"
cp "$work/package/dist/idiomorph.min.js" "$assets/idiomorph.min.js"
cp "$work/package/LICENSE" "$assets/LICENSE.idiomorph"
{
  echo "# pkg:npm/idiomorph@$version"
  (cd "$assets" && sha256sum idiomorph.min.js LICENSE.idiomorph)
} > hack/consoleassets.sha256
