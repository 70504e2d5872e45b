//! What libamdhip64 does in its own way: the current device, properties, texts of errors.

use crate::{
    shared::{call, error_text, load},
    world::{CURRENT, Code, INVALID_IMAGE, log, variable},
};
use std::ffi::{c_char, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipInit(flags: u32) -> Code {
    call("hipInit", &flags.to_string(), |_| Ok(String::new()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGet(to: *mut i32, index: i32) -> Code {
    call("hipDeviceGet", &index.to_string(), |_| {
        // Safety: the caller's to write.
        unsafe { *to = index };
        Ok(String::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceTotalMem(to: *mut usize, device: i32) -> Code {
    call("hipDeviceTotalMem", &device.to_string(), |_| {
        // Safety: as above.
        unsafe { *to = 1 << 30 };
        Ok(String::new())
    })
}

/// Of 1472 bytes, as in ROCm 6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(to: *mut u8, device: i32) -> Code {
    call("hipGetDevicePropertiesR0600", &device.to_string(), |_| {
        let chip = variable("ZML_FAKE_CHIP", "gfx942:sramecc+:xnack-");
        for (i, b) in chip.bytes().take(255).enumerate() {
            // Safety: within the structure.
            unsafe { *to.add(1160 + i) = b };
        }
        Ok(chip)
    })
}

/// Not logged when nothing changes: the runtime calls it before everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipSetDevice(device: i32) -> Code {
    if !CURRENT.replace(true) {
        log(&format!("hipSetDevice({device})"));
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(to: *mut *mut c_void, image: *const c_void) -> Code {
    // Safety: the caller keeps to the C function's contract.
    unsafe { load("hipModuleLoadData", to, image, INVALID_IMAGE) }.unwrap_or_else(|(code, _)| code)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetErrorName(code: Code) -> *const c_char {
    error_text(code, false).0.as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetErrorString(code: Code) -> *const c_char {
    error_text(code, false).1.as_ptr()
}
