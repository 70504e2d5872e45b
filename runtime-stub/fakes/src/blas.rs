//! What cublasLt and hipBLASLt do, as far as the runtime calls them: descriptions are remembered, a product is logged
//! with all that was said of it and put on the stream.

use crate::{
    shared::call,
    world::{Code, Op, world},
};
use std::{
    ffi::c_void,
    sync::{Mutex, MutexGuard},
};

type Handle = *mut c_void;

/// Texts of what was made, by handle; those that were destroyed are gone.
static MADE: Mutex<Vec<Option<String>>> = Mutex::new(vec![]);

fn made() -> MutexGuard<'static, Vec<Option<String>>> {
    MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
fn text(h: Handle) -> String {
    made().get((h as usize).wrapping_sub(1)).cloned().flatten().unwrap_or_else(|| "!! nothing".into())
}

/// Safety: `to` is the caller's to write.
unsafe fn make(to: *mut Handle, text: String) -> Code {
    let mut all = made();
    all.push(Some(text));
    // Safety: as the caller promises.
    unsafe { *to = all.len() as Handle };
    0
}
/// Safety: `value` has `bytes` bytes.
unsafe fn set(h: Handle, which: i32, value: *const c_void, bytes: usize) -> Code {
    let mut word = [0u8; 8];
    // Safety: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(value.cast(), word.as_mut_ptr(), bytes.min(8)) };
    if let Some(Some(text)) = made().get_mut((h as usize).wrapping_sub(1)) {
        text.push_str(&format!(" {which}={}", u64::from_le_bytes(word)));
        return 0;
    }
    7
}
fn destroy(h: Handle) -> Code {
    match made().get_mut((h as usize).wrapping_sub(1)).and_then(Option::take) {
        Some(_) => 0,
        None => 7,
    }
}

both! {
    cublasLtCreate hipblasLtCreate(to: *mut Handle) |n| match call(n, "", |_| Ok(String::new())) {
        0 => make(to, "handle".into()),
        code => code,
    };
    cublasLtMatmulDescCreate hipblasLtMatmulDescCreate(to: *mut Handle, compute: i32, scale: i32)
        |_n| make(to, format!("compute {compute} scale {scale}"));
    cublasLtMatmulDescSetAttribute hipblasLtMatmulDescSetAttribute(h: Handle, which: i32, value: *const c_void, bytes: usize)
        |_n| set(h, which, value, bytes);
    cublasLtMatmulDescDestroy hipblasLtMatmulDescDestroy(h: Handle) |_n| destroy(h);
    cublasLtMatrixLayoutCreate hipblasLtMatrixLayoutCreate(to: *mut Handle, kind: i32, rows: u64, columns: u64, lead: i64)
        |_n| make(to, format!("type {kind} {rows}x{columns} lead {lead}"));
    cublasLtMatrixLayoutSetAttribute hipblasLtMatrixLayoutSetAttribute(h: Handle, which: i32, value: *const c_void, bytes: usize)
        |_n| set(h, which, value, bytes);
    cublasLtMatrixLayoutDestroy hipblasLtMatrixLayoutDestroy(h: Handle) |_n| destroy(h);
    cublasLtMatmulPreferenceCreate hipblasLtMatmulPreferenceCreate(to: *mut Handle) |_n| make(to, "preference".into());
    cublasLtMatmulPreferenceSetAttribute hipblasLtMatmulPreferenceSetAttribute(h: Handle, which: i32, value: *const c_void, bytes: usize)
        |_n| set(h, which, value, bytes);
    cublasLtMatmulPreferenceDestroy hipblasLtMatmulPreferenceDestroy(h: Handle) |_n| destroy(h);
    cublasLtMatmulAlgoGetHeuristic hipblasLtMatmulAlgoGetHeuristic(_handle: Handle, _product: Handle, _a: Handle, _b: Handle, _c: Handle, _d: Handle, preference: Handle, _wanted: i32, _results: *mut c_void, found: *mut i32)
        |n| call(n, &text(preference), |_| {
            *found = 1;
            Ok("1".into())
        });
    cublasLtMatmul hipblasLtMatmul(_handle: Handle, product: Handle, _one: *const c_void, a: u64, a_layout: Handle, b: u64, b_layout: Handle, _zero: *const c_void, _c: u64, _c_layout: Handle, d: u64, d_layout: Handle, _algorithm: *const c_void, workspace: u64, bytes: usize, stream: Handle)
        |n| multiply(n, &text(product), [(a, a_layout), (b, b_layout), (d, d_layout)], (workspace, bytes), stream);
}

/// The result becomes zeros, so that a stream has something to do.
fn multiply(name: &str, said: &str, operands: [(u64, Handle); 3], workspace: (u64, usize), stream: Handle) -> Code {
    let (arguments, to) = {
        let w = world();
        let at = |a: u64, bytes: usize| w.address(a, bytes).unwrap_or_else(|e| e);
        let shown: Vec<String> = operands.iter().map(|(a, l)| format!("{} {}", at(*a, 1), text(*l))).collect();
        let scratch = at(workspace.0, workspace.1);
        (
            format!("{said}; {}; {scratch} {}; s{}", shown.join("; "), workspace.1, (stream as usize).wrapping_sub(1)),
            operands[2].0,
        )
    };
    call(name, &arguments, |w| {
        if w.enqueue((stream as usize).wrapping_sub(1), Op::Fill { to, byte: 0, bytes: 1 }) {
            Ok(String::new())
        } else {
            Err(("!! no such stream".into(), 7))
        }
    })
}
