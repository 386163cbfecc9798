# Sourced by the other scripts: installs what is missing, nothing when all is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages SET...: the Debian packages of these sets of scripts/packages.txt.
install_packages() {
  local missing=() set package
  while read -r set package _; do
    case " $* " in *" $set "*) ;; *) continue ;; esac
    if [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | cut -c1-2)" != ii ]; then
      missing+=("$package")
    fi
  done <scripts/packages.txt
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "not a Debian machine; install what these are here: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || fail "run as root, or install sudo: needs ${missing[*]}"
  echo "Installing ${missing[*]}"
  # Again without the lists only where they are missing or old.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
    </dev/null >build/apt.log 2>&1 || {
    as_root apt-get update -q </dev/null >build/apt.log 2>&1 || { tail -5 build/apt.log; fail "apt-get update failed"; }
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
      </dev/null >build/apt.log 2>&1 || { tail -5 build/apt.log; fail "apt-get install failed"; }
  }
}

# Python with the oracles, in build/python; made anew when scripts/requirements.txt changes.
install_python() {
  local stamp=build/python/requirements.txt
  if ! cmp -s scripts/requirements.txt "$stamp"; then
    echo "Installing the oracles' Python packages"
    rm -rf build/python
    /usr/bin/python3 -m venv build/python
    build/python/bin/pip install -q --disable-pip-version-check -r scripts/requirements.txt </dev/null ||
      fail "pip could not install scripts/requirements.txt"
    cp scripts/requirements.txt "$stamp"
  fi
}

# configure PRESET [FLAG...]: quick when nothing changed; what CMake says is shown where it fails.
configure() {
  local preset=$1
  shift
  cmake --preset "$preset" "$@" >"build/$preset.log" 2>&1 || { cat "build/$preset.log"; fail "cmake failed"; }
}

mkdir -p build
