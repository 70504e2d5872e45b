//! An MLIR context with every dialect that the pipeline uses, and running upstream pass pipelines in it with their
//! diagnostics (the C API's result says only "failed").

use crate::pass::PassError;
use melior::{
    Context,
    dialect::DialectRegistry,
    ir::{Module, operation::OperationLike},
    pass::PassManager,
    utility::{parse_pass_pipeline, register_all_dialects, register_all_llvm_translations, register_all_passes},
};
use std::{cell::RefCell, rc::Rc, sync::Once};

unsafe extern "C" {
    fn zml_load_dialect(context: mlir_sys::MlirContext);
}

/// A context of one thread: melior's `Context` is not `Send`, so each worker makes its own.
pub fn context() -> Context {
    static PASSES: Once = Once::new();
    PASSES.call_once(register_all_passes);
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let context = Context::new();
    crate::ir::forget_iterators();
    context.append_dialect_registry(&registry);
    context.load_all_available_dialects();
    register_all_llvm_translations(&context);
    // Sound: the function only loads a dialect into the live context it is given.
    unsafe { zml_load_dialect(context.to_raw()) };
    context
}

/// Runs `f` and returns what MLIR reported meanwhile, one line each.
pub fn with_diagnostics<T>(context: &Context, f: impl FnOnce() -> T) -> (T, Vec<String>) {
    let said = Rc::new(RefCell::new(vec![]));
    let sink = said.clone();
    let id = context.attach_diagnostic_handler(move |d| {
        sink.borrow_mut().push(d.to_string());
        true
    });
    let result = f();
    context.detach_diagnostic_handler(id);
    (result, said.take())
}

/// Runs an upstream pipeline, `builtin.module(canonicalize,cse)`.
pub fn run_pipeline<'c>(context: &'c Context, module: &mut Module<'c>, pipeline: &str) -> Result<(), PassError> {
    let manager = PassManager::new(context);
    // Not after each of them: what the whole leaves is verified, as after every pass.
    manager.enable_verifier(false);
    parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)
        .map_err(|e| PassError::Bug(format!("pipeline `{pipeline}`: {e}")))?;
    let (result, said) = with_diagnostics(context, || manager.run(module));
    result.map_err(|_| PassError::Bug(format!("`{pipeline}` failed:\n{}", said.join("\n"))))
}

/// Parses what `print` wrote.
pub fn parse<'c>(context: &'c Context, text: &str) -> Result<Module<'c>, PassError> {
    let (module, said) = with_diagnostics(context, || Module::parse(context, text));
    module.ok_or_else(|| PassError::Input(format!("the IR does not parse:\n{}", said.join("\n"))))
}

/// The text of a module, the form that `inspect-ir` shows and that resumes.
pub fn print(module: &Module) -> String {
    let mut text = module.as_operation().to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// MLIR's own verifier, with its reasons.
pub fn verify(context: &Context, module: &Module) -> Result<(), PassError> {
    let (ok, said) = with_diagnostics(context, || module.as_operation().verify());
    if ok { Ok(()) } else { Err(PassError::Bug(format!("invalid IR:\n{}", said.join("\n")))) }
}
