#!/usr/bin/env bash
# Sets up a Debian 12 machine, builds the library and trains a network on handwritten digits.
# Arguments go to `aster demo digits`.
# shellcheck source=scripts/setup.sh
source "$(dirname "$0")/setup.sh"
install_packages run
configure release
echo "Building"
cmake --build build/release --target aster
exec build/release/bin/aster demo digits "$@"
