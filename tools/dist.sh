#!/bin/sh
# Makes zmlc as it is shipped: MLIR, LLVM and the C++ library inside, so that it needs the C library and nothing else.
# What comes out, in target/dist: zmlc-VERSION-x86_64-linux.tar.zst and the OCI image layout zmlc-image.
# lld is the linker because it reads archives in any order. The runtime for arm64 is left out, and that is said, where the
# toolchain has no standard library for it.
set -eu
cd "$(dirname "$0")/.."
out=target/dist
machine=x86_64-unknown-linux-gnu
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
mkdir -p "$out"
rm -f "$out/sources"

tools/llvm/make-static.sh
MLIR_SYS_220_PREFIX="$PWD/tools/llvm/static" \
RUSTFLAGS="-Clinker=/usr/lib/llvm-22/bin/clang -Clink-arg=-fuse-ld=lld -Lnative=$PWD/tools/llvm/static/lib" \
    cargo build -q --profile dist -p zmlc --target $machine --target-dir target/static

tools/portable-runtime.sh x86_64
set -- --runtime target/portable/zml-run
if tools/portable-runtime.sh aarch64; then
    set -- "$@" --runtime target/portable/zml-run-aarch64
else
    echo "skipped: no zml-run for arm64 in it" >&2
fi

# Licences of what is inside: crates by their own files, the rest by Debian's.
rm -rf "$out/LICENSES"
mkdir -p "$out/LICENSES/crates"
cp LICENSE "$out/LICENSES/zmlc"
debian() {
    cp "/usr/share/doc/$1/copyright" "$out/LICENSES/$1"
    dpkg-query -W -f "\${source:Package}|\${Version}|$2|pkg:deb/debian/\${source:Package}@\${Version}\n" "$1"
}
{
    debian libmlir-22-dev 'Apache-2.0 WITH LLVM-exception'
    debian libstdc++-12-dev 'GPL-3.0-or-later WITH GCC-exception-3.1'
    debian zlib1g-dev Zlib
    echo "rust-std|$(rustc --version | cut -d' ' -f2)|MIT OR Apache-2.0|"
    # Crates of the registry; those of this repository have a path.
    cargo tree -q -p zmlc -e normal,no-proc-macro --target $machine --prefix none --format '{p}|{l}' |
        sed 's/ (\*)//' | grep -v '(/' | sort -u |
        sed 's/ v/|/; s/^\([^|]*\)|\([^|]*\)|\(.*\)$/\1|\2|\3|pkg:cargo\/\1@\2/'
} >"$out/parts"
grep 'pkg:cargo' "$out/parts" | while IFS='|' read -r name number _; do
    mkdir -p "$out/LICENSES/crates/$name-$number"
    find "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-$number" -maxdepth 1 -type f \
        \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'unlicense*' \) \
        -exec cp {} "$out/LICENSES/crates/$name-$number/" \;
    rmdir --ignore-fail-on-non-empty "$out/LICENSES/crates/$name-$number"
done

cargo run -q --example dist -p zmlc-package -- --zmlc "target/static/$machine/dist/zmlc" "$@" \
    --shell /bin/busybox --licenses "$out/LICENSES" --parts "$out/parts" \
    --archive "$out/zmlc-$version-x86_64-linux.tar.zst" --oci "$out/zmlc-image"
tools/bare-debian.sh "$out/debian12"
tools/sources.sh >"$out/sources"
