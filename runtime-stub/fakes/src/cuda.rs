//! What libcuda does in its own way: contexts, attributes, the JIT's log, texts of errors.

use crate::{
    shared::{call, current, done, error_text, handle, index, load, none, put},
    world::{CURRENT, Code, INVALID_PTX, Linker, World, log, variable, world},
};
use std::ffi::{CStr, c_char, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> Code {
    let queues = variable("CUDA_DEVICE_MAX_CONNECTIONS", "8");
    call("cuInit", &flags.to_string(), |_| Ok(format!("{queues} queues")))
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
        say(log_of(count, options, values), &said);
        code
    }
}

/// CU_JIT_ERROR_LOG_BUFFER and its size; zeros without one.
unsafe fn log_of(count: u32, options: *const i32, values: *const *mut c_void) -> (usize, usize) {
    // Safety: as many options and values as the caller says.
    unsafe {
        let at = |option| (0..count as usize).find(|i| *options.add(*i) == option);
        at(5).zip(at(6)).map_or((0, 0), |(b, n)| (*values.add(b) as usize, *values.add(n) as usize))
    }
}
unsafe fn say(log: (usize, usize), text: &str) {
    for (i, b) in text.bytes().chain([0]).take(log.1).enumerate() {
        // Safety: the log has that much room.
        unsafe { *((log.0 + i) as *mut u8) = b };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkCreate_v2(
    count: u32,
    options: *const i32,
    values: *const *mut c_void,
    to: *mut *mut c_void,
) -> Code {
    call("cuLinkCreate_v2", "", |w| {
        current()?;
        // Safety: the caller keeps to the C function's contract.
        unsafe {
            let l = put(&mut w.linkers, Linker { log: log_of(count, options, values), cubin: vec![] });
            *to = handle(l);
            Ok(format!("l{l}"))
        }
    })
}

/// A cubin is the text again behind what an ELF file begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkAddData_v2(
    state: *mut c_void,
    kind: i32,
    data: *const c_void,
    bytes: usize,
    _name: *const c_char,
    _count: u32,
    _options: *const i32,
    _values: *const *mut c_void,
) -> Code {
    // Safety: PTX ends with a zero, which counts.
    let text = unsafe { CStr::from_ptr(data.cast()) }.to_string_lossy().into_owned();
    call("cuLinkAddData_v2", &format!("l{}, {kind}, {bytes} bytes", index(state)), |w| {
        current()?;
        let linker = w.linkers.get_mut(index(state)).and_then(Option::as_mut).ok_or_else(|| none("linker"))?;
        if text.len() + 1 != bytes {
            return Err(("!! a text of another length".into(), INVALID_PTX));
        }
        if World::entries(&text).is_empty() {
            // Safety: the log lives as long as the linker.
            unsafe { say(linker.log, "fake: the module has no kernel that it could compile") };
            return Err((format!("no .entry in {} bytes", text.len()), INVALID_PTX));
        }
        linker.cubin = [b"\x7fELF", text.as_bytes(), &[0]].concat();
        done()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkComplete(state: *mut c_void, to: *mut *mut c_void, bytes: *mut usize) -> Code {
    call("cuLinkComplete", &format!("l{}", index(state)), |w| {
        current()?;
        let linker = w.linkers.get_mut(index(state)).and_then(Option::as_mut).ok_or_else(|| none("linker"))?;
        // Safety: the caller's to write; the cubin lives as long as the linker.
        unsafe {
            *to = linker.cubin.as_mut_ptr().cast();
            *bytes = linker.cubin.len();
        }
        done()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLinkDestroy(state: *mut c_void) -> Code {
    call("cuLinkDestroy", &format!("l{}", index(state)), |w| {
        w.linkers.get_mut(index(state)).and_then(Option::take).map(|_| String::new()).ok_or_else(|| none("linker"))
    })
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
