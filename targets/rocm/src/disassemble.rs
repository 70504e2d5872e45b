//! A code object as assembly text, by LLVM's disassembler in this process.

use crate::{
    code_object::CodeObject,
    codegen::{TRIPLE, initialize},
};
use llvm_sys::disassembler::*;
use std::{
    ffi::{CStr, CString, c_char},
    fmt::Write,
    ptr::null_mut,
};
use zmlc_passes::pass::PassError;

pub fn disassemble(bytes: &[u8], chip: &str) -> Result<String, PassError> {
    let object = CodeObject::read(bytes).map_err(PassError::Input)?;
    initialize();
    let chip = CString::new(chip).map_err(|_| PassError::Bug("a chip's name holds NUL".into()))?;
    // Sound: the strings outlive the call; no callbacks are given.
    let context = unsafe { LLVMCreateDisasmCPU(TRIPLE.as_ptr(), chip.as_ptr(), null_mut(), 0, None, None) };
    if context.is_null() {
        return Err(PassError::Bug("LLVM has no AMDGPU disassembler".into()));
    }
    let mut text = String::new();
    for kernel in &object.kernels {
        let _ = writeln!(text, "{}:", kernel.name);
        let mut code = object.code(kernel).to_vec();
        let mut at = 0;
        while at < code.len() {
            let mut line = [0 as c_char; 256];
            let rest = &mut code[at..];
            // Sound: lengths are those of the slices, and LLVM ends the text with NUL.
            let size = unsafe {
                LLVMDisasmInstruction(
                    context,
                    rest.as_mut_ptr(),
                    rest.len() as u64,
                    at as u64,
                    line.as_mut_ptr(),
                    line.len(),
                )
            };
            if size == 0 {
                let word = rest.iter().take(4).rev().fold(0u32, |w, b| w << 8 | u32::from(*b));
                let _ = writeln!(text, "\t.long 0x{word:08x}");
                at += 4;
                continue;
            }
            let line = unsafe { CStr::from_ptr(line.as_ptr()) }.to_string_lossy();
            let _ = writeln!(text, "{}", line.trim_end());
            at += size;
        }
    }
    // Made above and used no more.
    unsafe { LLVMDisasmDispose(context) };
    Ok(text)
}
