#!/bin/sh
# Installs the Debian packages named as arguments that are missing. With ZMLC_NO_APT=1 a missing one is an error.
set -eu
missing=
for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "${ZMLC_NO_APT:-}" = 1 ]; then
    echo "error: these Debian packages are missing:$missing" >&2
    echo "  = hint: apt-get install$missing" >&2
    exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing:$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
