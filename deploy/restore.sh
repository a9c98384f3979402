#!/bin/sh
# Restore a backup into a new workspace and an empty ledger:  sh deploy/restore.sh BACKUP WORKSPACE
# With SUDARE_LEDGER_URL (or the restored sudare.toml) naming PostgreSQL, its database must hold no ledger.
# What was charged after the backup is forgotten (docs/operate.md): the last step holds the ledger against every
# version of the store.
set -eu
[ $# -eq 2 ] || { echo "usage: sh deploy/restore.sh BACKUP WORKSPACE" >&2; exit 2; }
umask 077
backup=$1
workspace=$2
(cd "$backup" && sha256sum -c --quiet SHA256SUMS)
if [ -e "$workspace/sudare.toml" ]; then
    echo "$workspace: a workspace already; restore into a new folder" >&2
    exit 2
fi
mkdir -p "$workspace"
tar -C "$workspace" -xpf "$backup/files.tar"
tar -C "$workspace" -xpf "$backup/draws.tar"
mkdir -p -m 0700 "$workspace/.sudare/runs"
sudare budget restore "$backup/ledger.ndjson" --workspace "$workspace"
sudare budget history --verify --workspace "$workspace" > /dev/null
echo "$workspace holds, as it was when the backup was made"
