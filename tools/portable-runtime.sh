#!/bin/sh
# Builds zml-run against glibc 2.17, so that one binary runs on every Linux since 2014, and shows what it asks for:
# for the machines named as arguments, x86_64 (the default) and aarch64. Needs python3-venv; zig is the linker and comes
# from PyPI. The results are target/portable/zml-run for x86_64, target/portable/zml-run-aarch64 for aarch64.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- x86_64
venv=target/portable/venv
if [ ! -x "$venv/bin/cargo-zigbuild" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check cargo-zigbuild==0.24.1 ziglang==0.17.1
fi
for machine in "$@"; do
    target=$machine-unknown-linux-gnu
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && ! rustup target add "$target"; then
        echo "error: this toolchain cannot build for $machine; \`rustup target add $target\` adds it" >&2
        exit 1
    fi
    # The rpath of .cargo/config.toml is for MLIR; the runtime finds its libraries beside itself.
    RUSTFLAGS='-Clink-arg=-Wl,-rpath,$ORIGIN/../lib' PATH="$PWD/$venv/bin:$PATH" \
        cargo zigbuild -q --profile stub -p zml-runtime --bin zml-run --target "$target.2.17"
    out=target/portable/zml-run
    [ "$machine" = x86_64 ] || out=$out-$machine
    cp "target/$target/stub/zml-run" "$out"
    newest=$(objdump -T "$out" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    echo "$out: $(stat -c %s "$out") bytes, $newest"
    [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ]
done
