//! Whether a code object holds a kernel as the manifest describes it: what a driver would find out, without one.

use crate::code_object::CodeObject;
use zml_format::Kernel;
use zmlc_passes::spec::DeviceSpec;

/// `EF_AMDGPU_MACH` of LLVM's User Guide for AMDGPU Backend, "ELF header flags".
const MACHINES: [(&str, u32); 4] = [("gfx942", 0x4c), ("gfx90a", 0x3f), ("gfx1100", 0x41), ("gfx1201", 0x4e)];

pub fn inspect(kernel: &Kernel, bytes: &[u8], spec: &DeviceSpec) -> Result<(), String> {
    let object = CodeObject::read(bytes)?;
    let want = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    want(object.abi_version == 3, format!("code object ABI {} instead of 3 (version 5)", object.abi_version))?;
    let machine = MACHINES.iter().find(|m| m.0 == spec.name).map(|m| m.1);
    want(machine == Some(object.machine), format!("it is for machine {:#x}", object.machine))?;
    want(object.undefined.is_empty(), format!("undefined: {}", object.undefined.join(", ")))?;
    let k = object.kernels.iter().find(|k| k.name == kernel.symbol);
    let k = k.ok_or_else(|| "there is no kernel of this name".to_string())?;
    want(
        k.wavefront == u64::from(spec.subgroup) && k.wave32 == (spec.subgroup == 32),
        format!("waves of {} instead of {}", k.wavefront, spec.subgroup),
    )?;
    let threads: u64 = kernel.block.iter().map(|n| u64::from(*n)).product();
    want(k.max_block >= threads, format!("at most {} threads where {threads} are started", k.max_block))?;
    want(
        k.group_bytes + u64::from(kernel.shared_bytes) <= u64::from(spec.shared_bytes),
        format!("{} bytes of workgroup memory, the device has {}", k.group_bytes, spec.shared_bytes),
    )?;
    let mut args = k.args.iter().filter(|a| !a.kind.starts_with("hidden_"));
    let mut offset = 0;
    for i in 0..kernel.buffers.len() + kernel.scalar_bytes as usize / 4 {
        let (kind, bytes) = if i < kernel.buffers.len() { ("global_buffer", 8) } else { ("by_value", 4) };
        let fits = args.next().is_some_and(|a| a.kind == kind && a.bytes == bytes && a.offset == offset);
        want(fits, format!("argument {i} is not a {kind} of {bytes} bytes at {offset}"))?;
        offset += bytes;
    }
    want(args.next().is_none(), "more arguments than the manifest has".into())?;
    want(k.kernarg_bytes >= offset, format!("{} bytes of arguments instead of {offset}", k.kernarg_bytes))
}
