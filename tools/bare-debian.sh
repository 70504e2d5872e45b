#!/bin/sh
# A bare Debian 12 in folder $1, as the image debian:12-slim has it: the packages of priority required, and apt.
# Nothing is done if it is there.
set -eu
[ ! -e "$1/etc/debian_version" ] || exit 0
"$(dirname "$0")/apt.sh" mmdebstrap
rm -rf "$1"
mmdebstrap --quiet --mode=root --variant=minbase --skip=output/dev --skip=output/mknod bookworm "$1"
