#!/usr/bin/env bash
# Sets up a Debian 12 machine, builds everything and runs all tests. Arguments go to ctest.
# shellcheck source=scripts/setup.sh
source "$(dirname "$0")/setup.sh"
install_packages run test
install_python
configure release
echo "Building"
cmake --build build/release
# The oracles' Python serves the suites that ask them.
export ASTER_ML_PYTHON="$PWD/build/python/bin/python"
# Its packages were installed above: a test that misses one fails.
export ASTER_TEST_NO_SKIPS=1
exec ctest --preset release --timeout 600 "$@" </dev/null
