//! Compiles the zml dialect: ODS through mlir-tblgen, and the C++ that registers it.

use std::{path::Path, process::Command};

/// Where Debian's packages put LLVM 22.
const LLVM: &str = "/usr/lib/llvm-22";

fn main() {
    println!("cargo:rerun-if-changed=shim");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for (mode, file) in [
        ("-gen-dialect-decls", "ZmlDialect.h.inc"),
        ("-gen-dialect-defs", "ZmlDialect.cpp.inc"),
        ("-gen-typedef-decls", "ZmlTypes.h.inc"),
        ("-gen-typedef-defs", "ZmlTypes.cpp.inc"),
        ("-gen-op-decls", "ZmlOps.h.inc"),
        ("-gen-op-defs", "ZmlOps.cpp.inc"),
    ] {
        let mut tblgen = Command::new(format!("{LLVM}/bin/mlir-tblgen"));
        tblgen.args([mode, "shim/Zml.td", "-I", &format!("{LLVM}/include"), "-o"]).arg(Path::new(&out).join(file));
        if mode.contains("dialect") {
            tblgen.arg("-dialect=zml");
        } else if mode.contains("typedef") {
            tblgen.arg("-typedefs-dialect=zml");
        }
        assert!(tblgen.status().expect("mlir-tblgen of LLVM 22 is installed").success(), "mlir-tblgen {mode}");
    }
    // clang, not gcc: trait ids are hashed from __PRETTY_FUNCTION__ and libMLIR.so was built by clang; with gcc the
    // traits of our ops would be absent without a word.
    cc::Build::new()
        .cpp(true)
        .compiler(format!("{LLVM}/bin/clang++"))
        .std("c++17")
        .flag("-fno-rtti")
        .flag("-w")
        .include(format!("{LLVM}/include"))
        .include(&out)
        .file("shim/zml.cpp")
        .compile("zmlshim");
}
