//! Kernels in the llvm dialect to an AMDGPU object, through LLVM's C API in this process.

use llvm_sys::{
    analysis::{LLVMVerifierFailureAction, LLVMVerifyModule},
    core::*,
    error::LLVMGetErrorMessage,
    prelude::*,
    support::LLVMParseCommandLineOptions,
    target::*,
    target_machine::*,
    transforms::pass_builder::*,
};
use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr::{null, null_mut},
    sync::Once,
};
use zmlc_passes::{context::with_diagnostics, ir::O, pass::PassError};

pub const TRIPLE: &CStr = c"amdgcn-amd-amdhsa";
/// Version 5 of AMD's code object ABI, which ROCm 5.2 and newer load: `amdhsa_code_object_version` counts in hundredths.
const CODE_OBJECT_VERSION: u64 = 500;

unsafe extern "C" {
    fn LLVMInitializeAMDGPUTargetInfo();
    fn LLVMInitializeAMDGPUTarget();
    fn LLVMInitializeAMDGPUTargetMC();
    fn LLVMInitializeAMDGPUAsmPrinter();
    fn LLVMInitializeAMDGPUDisassembler();
}

/// Registers the AMDGPU back end with LLVM, once a process.
pub fn initialize() {
    static ONCE: Once = Once::new();
    // Selecting halves and bytes within an instruction (SDWA) is left out: tinygrad's emulator of CDNA loses the sign of an
    // operand that is negated there.
    let arguments = [c"zmlc".as_ptr(), c"-amdgpu-sdwa-peephole=0".as_ptr()];
    // Sound: they only register and set, the arguments live, and Once keeps other threads out meanwhile.
    ONCE.call_once(|| unsafe {
        LLVMParseCommandLineOptions(arguments.len() as i32, arguments.as_ptr(), null());
        LLVMInitializeAMDGPUTargetInfo();
        LLVMInitializeAMDGPUTarget();
        LLVMInitializeAMDGPUTargetMC();
        LLVMInitializeAMDGPUAsmPrinter();
        LLVMInitializeAMDGPUDisassembler();
    });
}

/// What must be freed, in the order of its fields. Null pointers are skipped.
struct Owned {
    options: LLVMPassBuilderOptionsRef,
    module: LLVMModuleRef,
    layout: LLVMTargetDataRef,
    machine: LLVMTargetMachineRef,
    context: LLVMContextRef,
}
impl Drop for Owned {
    fn drop(&mut self) {
        // Sound: each is owned by this struct alone, and a module goes before its context.
        unsafe {
            if !self.options.is_null() {
                LLVMDisposePassBuilderOptions(self.options);
            }
            if !self.module.is_null() {
                LLVMDisposeModule(self.module);
            }
            if !self.layout.is_null() {
                LLVMDisposeTargetData(self.layout);
            }
            if !self.machine.is_null() {
                LLVMDisposeTargetMachine(self.machine);
            }
            LLVMContextDispose(self.context);
        }
    }
}

/// The relocatable object of `kernels`, a gpu.module in the llvm and rocdl dialects, for `chip` with these LLVM `features`.
pub fn object(context: &melior::Context, kernels: O, chip: &str, features: &str) -> Result<Vec<u8>, PassError> {
    initialize();
    let text = |s: &str| CString::new(s).map_err(|_| PassError::Bug("an option of the profile holds NUL".into()));
    let (chip, features) = (text(chip)?, text(features)?);
    let mut said: Vec<String> = vec![];
    // Sound: pointers that LLVM returns are checked or documented never null, strings outlive the calls that take them,
    // `said` outlives the LLVM context that reports into it, and `Owned` frees everything once.
    unsafe {
        let mut o = Owned {
            options: null_mut(),
            module: null_mut(),
            layout: null_mut(),
            machine: null_mut(),
            context: LLVMContextCreate(),
        };
        LLVMContextSetDiagnosticHandler(o.context, Some(report), (&raw mut said).cast());
        let mut target = null_mut();
        let mut error = null_mut();
        if LLVMGetTargetFromTriple(TRIPLE.as_ptr(), &mut target, &mut error) != 0 {
            return Err(bug("no AMDGPU back end", error));
        }
        o.machine = LLVMCreateTargetMachine(
            target,
            TRIPLE.as_ptr(),
            chip.as_ptr(),
            features.as_ptr(),
            LLVMCodeGenOptLevel::LLVMCodeGenLevelAggressive,
            LLVMRelocMode::LLVMRelocPIC,
            LLVMCodeModel::LLVMCodeModelDefault,
        );
        let (module, diagnostics) =
            with_diagnostics(context, || mlir_sys::mlirTranslateModuleToLLVMIR(kernels.to_raw(), o.context.cast()));
        if module.is_null() {
            return Err(PassError::Bug(format!("no LLVM IR from the llvm dialect:\n{}", diagnostics.join("\n"))));
        }
        o.module = module.cast();
        o.layout = LLVMCreateTargetDataLayout(o.machine);
        LLVMSetTarget(o.module, TRIPLE.as_ptr());
        LLVMSetModuleDataLayout(o.module, o.layout);
        let version = LLVMConstInt(LLVMInt32TypeInContext(o.context), CODE_OBJECT_VERSION, 0);
        let key = c"amdhsa_code_object_version";
        LLVMAddModuleFlag(
            o.module,
            llvm_sys::LLVMModuleFlagBehavior::LLVMModuleFlagBehaviorOverride,
            key.as_ptr(),
            key.count_bytes(),
            LLVMValueAsMetadata(version),
        );
        if LLVMVerifyModule(o.module, LLVMVerifierFailureAction::LLVMReturnStatusAction, &mut error) != 0 {
            return Err(bug("invalid LLVM IR", error));
        }
        LLVMDisposeMessage(error);
        error = null_mut();
        o.options = LLVMCreatePassBuilderOptions();
        let failed = LLVMRunPasses(o.module, c"default<O3>".as_ptr(), o.machine, o.options);
        if !failed.is_null() {
            return Err(PassError::Bug(format!(
                "LLVM's passes: {}",
                CStr::from_ptr(LLVMGetErrorMessage(failed)).to_string_lossy()
            )));
        }
        let mut buffer = null_mut();
        let kind = LLVMCodeGenFileType::LLVMObjectFile;
        if LLVMTargetMachineEmitToMemoryBuffer(o.machine, o.module, kind, &mut error, &mut buffer) != 0 {
            return Err(bug("no object", error));
        }
        let bytes = std::slice::from_raw_parts(LLVMGetBufferStart(buffer).cast::<u8>(), LLVMGetBufferSize(buffer));
        let bytes = bytes.to_vec();
        LLVMDisposeMemoryBuffer(buffer);
        drop(o);
        if said.is_empty() { Ok(bytes) } else { Err(PassError::Bug(format!("LLVM: {}", said.join("\n")))) }
    }
}

fn bug(what: &str, message: *mut c_char) -> PassError {
    // LLVM sets a message whenever one of these calls fails.
    let reason = unsafe { CStr::from_ptr(message).to_string_lossy().into_owned() };
    unsafe { LLVMDisposeMessage(message) };
    PassError::Bug(format!("{what}: {reason}"))
}

/// Without a handler LLVM prints an error and ends the process.
extern "C" fn report(info: LLVMDiagnosticInfoRef, said: *mut c_void) {
    // Sound: `said` is the Vec that `object` registered, which outlives the LLVM context.
    unsafe {
        if !matches!(LLVMGetDiagInfoSeverity(info), llvm_sys::LLVMDiagnosticSeverity::LLVMDSError) {
            return;
        }
        let text = LLVMGetDiagInfoDescription(info);
        (*said.cast::<Vec<String>>()).push(CStr::from_ptr(text).to_string_lossy().into_owned());
        LLVMDisposeMessage(text);
    }
}
