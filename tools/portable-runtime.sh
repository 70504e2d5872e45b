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

# Debian's compiler with the standard library for another machine, unpacked in target/portable/debian and not installed.
debian_rust() { # Debian's name of the machine
    mkdir -p "target/portable/debian/$1/partial"
    cd target/portable/debian
    there="-oAPT::Architecture=$1 -oAPT::Architectures=$1 -oDir::State::Lists=$PWD/$1"
    rm -f ./*.deb
    apt-get -qq $there update
    apt-get -qq $there download libstd-rust-web-dev
    apt-get -qq download rustc-web libstd-rust-web-dev \
        "$(apt-cache depends libstd-rust-web-dev | sed -n 's/.*Depends: \(libstd-rust-web-[0-9.]*\)$/\1/p')"
    for package in ./*.deb; do dpkg-deb -x "$package" .; done
    cd - >/dev/null
}

for machine in "$@"; do
    target=$machine-unknown-linux-gnu
    (
        if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && ! rustup target add "$target" 2>/dev/null; then
            [ "$machine" = aarch64 ] || exit 1
            rust=$PWD/target/portable/debian/usr
            [ -d "$rust/lib/rustlib/$target" ] || debian_rust arm64
            export RUSTC="$rust/bin/rustc" LD_LIBRARY_PATH="$rust/lib/$(gcc -dumpmachine)"
        fi
        # The rpath of .cargo/config.toml is for MLIR; the runtime finds its libraries beside itself.
        RUSTFLAGS='-Clink-arg=-Wl,-rpath,$ORIGIN/../lib' PATH="$PWD/$venv/bin:$PATH" cargo zigbuild -q \
            --profile stub -p zml-runtime --bin zml-run --target "$target.2.17" --target-dir "target/portable/$machine"
    ) || {
        echo "error: no standard library of Rust for $machine; \`rustup target add $target\` adds it" >&2
        exit 1
    }
    out=target/portable/zml-run
    [ "$machine" = x86_64 ] || out=$out-$machine
    cp "target/portable/$machine/$target/stub/zml-run" "$out"
    newest=$(/usr/lib/llvm-22/bin/llvm-objdump -T "$out" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    echo "$out: $(stat -c %s "$out") bytes, $newest"
    [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ]
done
