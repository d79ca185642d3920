#!/bin/sh
# Debian gives "remove", RPM the number of versions that stay.
set -e

[ -d /run/systemd/system ] || exit 0
if [ "$1" = remove ] || [ "$1" = 0 ]; then
  systemctl disable --now certplane.service certplane-agent.service certplane-backup.timer
fi
