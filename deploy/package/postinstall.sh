#!/bin/sh
# Debian gives "configure" and the former version, if any; RPM gives the number of
# installed versions.
set -e

if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers certplane.conf
elif ! getent passwd certplane >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/certplane --no-create-home --shell /usr/sbin/nologin certplane
fi
if command -v systemd-tmpfiles >/dev/null; then
  systemd-tmpfiles --create certplane.conf
else
  install -d -m 700 -o certplane -g certplane /var/backups/certplane
fi

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" -gt 1 ] 2>/dev/null; then
  systemctl try-restart certplane.service certplane-agent.service
fi
