#!/bin/sh
# One line if cargo is missing or older than rust-version in Cargo.toml.
set -eu
need=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$(dirname "$0")/../Cargo.toml" | head -1)
have=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
if [ -z "$have" ] || [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -1)" != "$need" ]; then
    echo "error: zmlc needs cargo $need or newer, this is ${have:-none}; install it with rustup (rust-toolchain.toml names it)" >&2
    exit 1
fi
