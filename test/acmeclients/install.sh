#!/usr/bin/env bash
# Installs the ACME clients that are not Go packages, where that is possible: those of
# Debian if this is root of a container, those of npm into a folder. Says what is
# missing, and never fails: tests of missing clients are skipped.
#
#   install.sh FOLDER
set -uo pipefail
peers=$1

has() { (PATH=$PATH:/usr/sbin:/usr/libexec command -v "$1") >/dev/null; }

# The file of each package, and packages that it needs besides. Each alone: one may
# be unknown.
missing=()
while read -r file package more; do
  has "$file" || missing+=("$package $more")
done <<'END'
certbot certbot
lego lego
dehydrated dehydrated
uacme uacme
acme-tiny acme-tiny
acmetool acmetool
lacme-accountd lacme-accountd libcrypt-openssl-rsa-perl
/usr/sbin/lacme lacme liblwp-protocol-https-perl
caddy caddy
/usr/lib/apache2/modules/mod_md.so apache2
/usr/share/rubygems-integration/all/gems/acme-client-2.0.9/lib/acme-client.rb ruby-acme-client
openssl openssl
curl curl
update-ca-certificates ca-certificates
END
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "acme clients: not installed, since this is not root of a Debian system: ${missing[*]}"
  elif [ -d /run/systemd/system ]; then
    echo "acme clients: not installed, since packages with services would be started: ${missing[*]}"
  else
    export DEBIAN_FRONTEND=noninteractive
    timeout 300 apt-get update >/dev/null 2>&1 || true
    for package in "${missing[@]}"; do
      # shellcheck disable=SC2086
      timeout 300 apt-get install -y --no-install-recommends $package </dev/null >/dev/null 2>&1 ||
        echo "acme clients: apt-get cannot install $package"
    done
  fi
fi

client=acme-client@5.4.0
if [ ! -d "$peers/npm/node_modules/acme-client" ]; then
  mkdir -p "$peers/npm"
  if ! has npm; then
    echo "acme clients: there is no npm for $client"
  else
    (cd "$peers/npm" && timeout 120 npm install --no-audit --no-fund --ignore-scripts "$client" >/dev/null 2>&1) ||
      echo "acme clients: npm cannot install $client"
  fi
fi
exit 0
