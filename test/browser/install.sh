#!/usr/bin/env bash
# Installs what the browser test needs, where that is possible: Chromium of Debian if this
# is root of such a system, and axe-core of npm into a folder that is not committed. Says
# what is missing, and never fails: the test skips what it cannot do.
#
#   install.sh FOLDER
set -uo pipefail
folder=$1

has() { command -v "$1" >/dev/null; }

if ! has chromium && ! has chromium-browser && ! has google-chrome; then
  if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "browser: Chromium is not installed, since this is not root of a Debian system"
  else
    export DEBIAN_FRONTEND=noninteractive
    timeout 300 apt-get update >/dev/null 2>&1 || true
    timeout 600 apt-get install -y --no-install-recommends chromium fonts-dejavu-core </dev/null >/dev/null 2>&1 ||
      echo "browser: apt-get cannot install chromium"
  fi
fi

# The license of axe-core is the MPL 2.0: it is used here, and never shipped.
version=4.14.1
integrity=FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==
if [ "$(cat "$folder/axe.version" 2>/dev/null)" != "$version" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$folder"
  if ! has npm || ! has openssl; then
    echo "browser: there is no npm or no openssl for axe-core@$version"
  elif ! (cd "$work" && timeout 120 npm pack --silent "axe-core@$version" >/dev/null 2>&1); then
    echo "browser: npm cannot get axe-core@$version"
  elif [ "$(openssl dgst -sha512 -binary "$work/axe-core-$version.tgz" | openssl base64 -A)" != "$integrity" ]; then
    echo "browser: axe-core@$version of npm is not what it was: its hash differs" >&2
  else
    tar -xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js && mv "$work/package/axe.min.js" "$folder/axe.min.js" && echo "$version" > "$folder/axe.version"
  fi
fi
exit 0
