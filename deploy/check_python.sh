#!/bin/sh
# Does Sudare work on another Python? A fresh environment from deploy/lock.txt, the demo, and a fixed
# part of the tests, chosen for what versions of Python differ in: reading of contracts and specs, exact noise,
# accounting, the ledger, and `import sudare`.
#
#     sh deploy/check_python.sh python3.13
#     sh deploy/check_python.sh 3.13                        # looks for it; says where there is none, and fails nothing
#     sh deploy/check_python.sh python3.13 duckdb==1.5.5    # with a package in another version than the lock's
#
# It leaves nothing behind. `make check-python PYTHON=python3.13` is the same.
set -eu
cd "$(dirname "$0")/.."
TESTS="tests/contracts/reading tests/contracts/release/test_spec.py
    tests/privacy/noise/test_discrete_laplace.py tests/privacy/noise/test_discrete_gaussian.py
    tests/privacy/accounting/test_amounts.py tests/privacy/accounting/test_convert.py
    tests/privacy/ledger/test_ledger_names.py tests/sudare/test_import.py"

works() {
    "$1" -c "import ensurepip, sys; sys.exit(not ('%d.%d' % sys.version_info[:2]).startswith('${2:-}'))" 2>/dev/null
}

python=${1:?which Python? Name it: sh deploy/check_python.sh python3.13}
case "$python" in
3.[0-9]*)
    wanted=$python
    for python in "python$wanted" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$wanted".*/bin/python; do
        works "$python" "$wanted" && break
        python=
    done
    [ -n "$python" ] || { echo "Python $wanted: not found on this machine, not checked"; exit 0; }
    ;;
*) works "$python" || { echo "check_python.sh: $python is no Python with the module ensurepip" >&2; exit 1; } ;;
esac

began=$(date +%s)
version=$("$python" -c 'import sys; print(sys.version.split()[0])')
say() { echo "Python $version: $1 ($(($(date +%s) - began)) s)"; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export TMPDIR="$place" PYTHONPYCACHEPREFIX="$place/bytecode" HYPOTHESIS_STORAGE_DIRECTORY="$place/hypothesis"

"$python" -m venv "$place/python"
PATH="$place/python/bin:$PATH"
pip() { "$place/python/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install -qq --no-compile --no-deps --require-hashes -r deploy/lock.txt -r deploy/build.txt
mkdir "$place/source"
cp -R sudare console flows tasks privacy contracts extensions pyproject.toml README.md LICENSE "$place/source"
pip install -qq --no-compile --no-deps --no-build-isolation "$place/source"
pip check
[ -z "${2:-}" ] || pip install -qq --no-compile "$2"
pip install -qq --no-compile -c deploy/constraints.txt pytest pytest-timeout pytest-rerunfailures hypothesis jsonschema
say "installed from the lock${2:+, with $2}"

sh examples/adult/demo.sh "$place/demo" >"$place/demo.log" 2>&1 || { cat "$place/demo.log"; exit 1; }
say "the demo ran"

# The tests are the tree's, and so is what they import.
# shellcheck disable=SC2086
python -m pytest -p no:cacheprovider -m "not spark and not long" -k "not postgresql" $TESTS
say "holds"
