#!/bin/sh
# The user and all data stay: they are in /etc/certplane, /var/lib/certplane,
# /var/lib/certplane-agent and /var/backups/certplane.
set -e

[ ! -d /run/systemd/system ] || systemctl daemon-reload
