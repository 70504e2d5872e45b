//! The target that emits its own IR: each kernel's binary is the text of its `gpu.module`. It runs nowhere. It is the
//! template of a target and, since it needs no back end, the double in tests of everything before and after one.
//!
//! What makes a target:
//! 1. `specs/<profile>.toml`: a [`DeviceSpec`] for each kind of device, embedded here. Everything that a common pass may
//!    know of the device stands there.
//! 2. `abi` in it chooses `kernel-abi` or `assign-descriptors`, which run before the target's own passes.
//! 3. [`Target::passes`]: from kernels in gpu, scf, memref, vector, arith, math (ARCHITECTURE.md, "Kernels") to what
//!    `serialize` takes. A pass keeps one `gpu.module` a kernel, in order, and its `verify` proves that no op is left
//!    that `serialize` does not know. What a device lacks is refused here, as [`PassError::Unsupported`] with its name.
//! 4. [`Target::serialize`]: a binary for each `gpu.module`. Equal `bytes` are stored once, so a target whose modules
//!    hold many entry points returns the same bytes for all of them.
//! 5. [`Target::disassemble`]: the text that `inspect-ir` shows of a binary.
//! 6. Tests: fixtures in the form of "Kernels", judged by the vendor's own checker, and run on a device or an emulator.
//! 7. The driver's list of targets in `src/`, and a driver in `runtime-stub/`.

use zmlc_passes::{
    ir::str_attr,
    llvm::gpu_modules,
    pass::{Pass, PassError},
    spec::DeviceSpec,
    target::{Binary, Target},
};

pub struct Null;

impl Target for Null {
    fn name(&self) -> &'static str {
        "null"
    }
    fn specs(&self) -> Vec<DeviceSpec> {
        let parsed = DeviceSpec::parse(include_str!("../specs/null.toml"));
        vec![parsed.expect("the embedded profile is valid, a test loads it")]
    }
    fn defaults(&self) -> &'static [&'static str] {
        &["null"]
    }
    fn passes(&self) -> Vec<&'static dyn Pass> {
        vec![]
    }
    fn serialize<'c>(
        &self,
        _context: &'c melior::Context,
        module: &melior::ir::Module<'c>,
        _spec: &DeviceSpec,
    ) -> Result<Vec<Binary>, PassError> {
        let binary = |g| {
            let kernel = str_attr(g, "sym_name").unwrap_or_default().to_string();
            Binary { symbol: kernel.clone(), kernel, bytes: format!("{g}\n").into_bytes(), shared_bytes: 0 }
        };
        Ok(gpu_modules(module).into_iter().map(binary).collect())
    }
    fn disassemble(&self, bytes: &[u8], _spec: &DeviceSpec) -> Result<String, PassError> {
        String::from_utf8(bytes.to_vec()).map_err(|_| PassError::Input("not the text of a kernel".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmlc_passes::context;

    #[test]
    fn a_binary_is_the_text_of_its_kernel() {
        let c = context::context();
        let text =
            "module { gpu.module @a { gpu.func @a(%x: memref<4xf32> {zml.access = \"read\"}) kernel { gpu.return } }
                     gpu.module @b { gpu.func @b() kernel { gpu.return } } }";
        let module = context::parse(&c, text).unwrap();
        let spec = Null.specs().remove(0);
        let binaries = Null.serialize(&c, &module, &spec).unwrap();
        assert_eq!(binaries.iter().map(|b| b.kernel.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let shown = Null.disassemble(&binaries[0].bytes, &spec).unwrap();
        assert!(shown.starts_with("gpu.module @a {") && shown.contains("memref<4xf32>"), "{shown}");
        assert!(context::parse(&c, &shown).is_ok());
        assert!(Null.disassemble(&[0xff], &spec).is_err());
    }
}
