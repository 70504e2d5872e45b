//! What libcuda does in its own way: contexts, attributes, the JIT's log, texts of errors.

use crate::{
    shared::{call, error_text, load},
    world::{CURRENT, Code, INVALID_PTX, log, variable, world},
};
use std::ffi::{c_char, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> Code {
    call("cuInit", &flags.to_string(), |_| Ok(String::new()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(to: *mut i32, index: i32) -> Code {
    call("cuDeviceGet", &index.to_string(), |_| {
        // Safety: the caller's to write.
        unsafe { *to = index };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(to: *mut usize, device: i32) -> Code {
    call("cuDeviceTotalMem_v2", &device.to_string(), |_| {
        // Safety: as above.
        unsafe { *to = 1 << 30 };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(to: *mut i32, which: i32, device: i32) -> Code {
    call("cuDeviceGetAttribute", &format!("{which}, {device}"), |_| {
        let capability = variable("ZML_FAKE_CAPABILITY", "9.0");
        let (major, minor) = capability.split_once('.').unwrap_or(("9", "0"));
        let value = match which {
            75 => major.parse().unwrap_or(9),
            76 => minor.parse().unwrap_or(0),
            _ => 0,
        };
        // Safety: as above.
        unsafe { *to = value };
        Ok(value.to_string())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut *mut c_void, device: i32) -> Code {
    call("cuDevicePrimaryCtxRetain", &device.to_string(), |_| {
        // Safety: as above.
        unsafe { *to = std::ptr::dangling_mut() };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> Code {
    let left = world().left();
    call("cuDevicePrimaryCtxRelease_v2", &device.to_string(), |_| Ok(left))
}

/// Not logged when nothing changes: the runtime calls it before everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> Code {
    if !CURRENT.replace(!context.is_null()) {
        log("cuCtxSetCurrent");
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    to: *mut *mut c_void,
    image: *const c_void,
    count: u32,
    options: *const i32,
    values: *const *mut c_void,
) -> Code {
    // Safety: the caller keeps to the C function's contract.
    unsafe {
        let (code, said) = match load("cuModuleLoadDataEx", to, image, INVALID_PTX) {
            Ok(code) => return code,
            Err(e) => e,
        };
        let at = |option| (0..count as usize).find(|i| *options.add(*i) == option);
        // CU_JIT_ERROR_LOG_BUFFER and its size.
        if let (Some(buffer), Some(size)) = (at(5), at(6)) {
            let (buffer, size) = ((*values.add(buffer)).cast::<u8>(), *values.add(size) as usize);
            for (i, b) in said.bytes().chain([0]).take(size).enumerate() {
                *buffer.add(i) = b;
            }
        }
        code
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(_: *mut c_void, which: i32, value: i32) -> Code {
    call("cuFuncSetAttribute", &format!("{which}, {value}"), |_| Ok(String::new()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: Code, to: *mut *const c_char) -> Code {
    // Safety: the caller's to write.
    unsafe { *to = error_text(code, true).0.as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: Code, to: *mut *const c_char) -> Code {
    // Safety: the caller's to write.
    unsafe { *to = error_text(code, true).1.as_ptr() };
    0
}
