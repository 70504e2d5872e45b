#!/bin/sh
# Builds zml-run against glibc 2.17, so that one binary runs on every Linux since 2014, and shows what it asks for.
# Needs python3-venv; zig is the linker and comes from PyPI. The result is target/portable/zml-run.
set -eu
cd "$(dirname "$0")/.."
venv=target/portable/venv
if [ ! -x "$venv/bin/cargo-zigbuild" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check cargo-zigbuild ziglang
fi
# The rpath of .cargo/config.toml is for MLIR; the runtime finds its libraries beside itself.
RUSTFLAGS='-Clink-arg=-Wl,-rpath,$ORIGIN/../lib' PATH="$PWD/$venv/bin:$PATH" \
    cargo zigbuild --profile stub -p zml-runtime --bin zml-run --target x86_64-unknown-linux-gnu.2.17
cp target/x86_64-unknown-linux-gnu/stub/zml-run target/portable/zml-run
newest=$(objdump -T target/portable/zml-run | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
echo "target/portable/zml-run: $(stat -c %s target/portable/zml-run) bytes, $newest"
[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ]
