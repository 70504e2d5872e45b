//! The functions that CUDA and HIP have under two names, each written once.

use crate::world::{
    CURRENT, Code, ILLEGAL_ADDRESS, INVALID_CONTEXT, INVALID_VALUE, NOT_FOUND, NOT_READY, Op, Parameter, World, log,
    variable, world,
};
use std::ffi::{CStr, c_char, c_void};

/// Logs `name(arguments)` and its result. `body` gives the text after `->`, or the reason and the code of a failure.
pub fn call(name: &str, arguments: &str, body: impl FnOnce(&mut World) -> Result<String, (String, Code)>) -> Code {
    let mut w = world();
    if let Some(code) = w.called(name) {
        log(&format!("{name}({arguments}) fails: {code}"));
        return code;
    }
    match body(&mut w) {
        Ok(result) => {
            let arrow = if result.is_empty() { "" } else { " -> " };
            log(&format!("{name}({arguments}){arrow}{result}"));
            0
        }
        Err((why, code)) => {
            log(&format!("{name}({arguments}) {why}: {code}"));
            code
        }
    }
}

pub type Done = Result<String, (String, Code)>;

pub fn done() -> Done {
    Ok(String::new())
}
pub fn current() -> Result<(), (String, Code)> {
    if CURRENT.get() { Ok(()) } else { Err(("!! no device is current".into(), INVALID_CONTEXT)) }
}
fn illegal(why: String) -> (String, Code) {
    (why, ILLEGAL_ADDRESS)
}
pub fn none(what: &str) -> (String, Code) {
    (format!("!! no such {what}"), INVALID_VALUE)
}

/// Handles are numbers from 1; null is none.
pub fn handle(i: usize) -> *mut c_void {
    (i + 1) as *mut c_void
}
pub fn index(h: *mut c_void) -> usize {
    (h as usize).wrapping_sub(1)
}
pub fn put<T>(all: &mut Vec<Option<T>>, x: T) -> usize {
    all.push(Some(x));
    all.len() - 1
}

pub unsafe fn count(name: &str, to: *mut i32) -> Code {
    call(name, "", |_| {
        let n = variable("ZML_FAKE_DEVICES", "1").parse().unwrap_or(1);
        // Safety: the caller's to write.
        unsafe { *to = n };
        Ok(n.to_string())
    })
}
pub unsafe fn version(name: &str, to: *mut i32) -> Code {
    call(name, "", |_| {
        let usual = if name.starts_with("hip") { "60200000" } else { "12080" };
        let v = variable("ZML_FAKE_VERSION", usual).parse().unwrap_or(0);
        // Safety: as above.
        unsafe { *to = v };
        Ok(v.to_string())
    })
}
pub unsafe fn device_name(name: &str, to: *mut c_char, device: i32) -> Code {
    call(name, &device.to_string(), |_| {
        for (i, b) in b"Fake GPU\0".iter().enumerate() {
            // Safety: the caller has room for 255 characters.
            unsafe { *to.add(i) = *b as c_char };
        }
        done()
    })
}

pub unsafe fn allocate(name: &str, to: *mut u64, bytes: usize, pinned: bool) -> Code {
    call(name, &bytes.to_string(), |w| {
        current()?;
        let at = w.allocate(bytes, pinned);
        // Safety: the caller's to write.
        unsafe { *to = at };
        Ok(w.blocks[&at].name.clone())
    })
}
pub fn free(name: &str, at: u64) -> Code {
    let known = world().blocks.get(&at).map_or("?".into(), |b| b.name.clone());
    call(name, &known, |w| {
        current()?;
        match w.blocks.get_mut(&at) {
            Some(b) if b.live => {
                b.live = false;
                done()
            }
            Some(_) => Err(("!! freed twice".into(), INVALID_VALUE)),
            None => Err(none("allocation")),
        }
    })
}

/// Which sides of a copy are the device's.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    Up,
    Down,
    Within,
}
pub fn copy(name: &str, to: u64, from: u64, bytes: usize, stream: *mut c_void, way: Way) -> Code {
    let (text, bad) = {
        let w = world();
        let (a, b) = (w.address(to, bytes), w.address(from, bytes));
        // Memory of the caller's own has no name, and is read at once.
        let a = if way == Way::Down { Ok(a.unwrap_or("host".into())) } else { a };
        let b = if way == Way::Up { Ok(b.unwrap_or("host".into())) } else { b };
        let data = if way == Way::Within { String::new() } else { format!(" {}", w.bytes(from, bytes)) };
        let show = |x: &Result<String, String>| x.clone().unwrap_or_else(|e| e);
        let text = format!("{}, {}{data}, {bytes}, s{}", show(&a), show(&b), index(stream));
        (text, a.and(b).err())
    };
    call(name, &text, |w| {
        current()?;
        if let Some(why) = bad {
            return Err(illegal(why));
        }
        if w.enqueue(index(stream), Op::Copy { from, to, bytes }) { done() } else { Err(none("stream")) }
    })
}
pub fn fill(name: &str, to: u64, byte: u8, bytes: usize, stream: *mut c_void) -> Code {
    let at = world().address(to, bytes);
    let text = format!("{}, {byte}, {bytes}, s{}", at.clone().unwrap_or_else(|e| e), index(stream));
    call(name, &text, |w| {
        current()?;
        at.map_err(illegal)?;
        if w.enqueue(index(stream), Op::Fill { to, byte, bytes }) { done() } else { Err(none("stream")) }
    })
}

/// The code, and what a compiler has to say of a failure.
pub unsafe fn load(name: &str, to: *mut *mut c_void, image: *const c_void, bad: Code) -> Result<Code, (Code, String)> {
    // Safety: the runtime ends every image with a zero.
    let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy().into_owned();
    let entries = World::entries(&text);
    let names = entries.iter().map(|e| e.0.as_str()).collect::<Vec<_>>().join(" ");
    let code = call(name, &names, |w| {
        current()?;
        if entries.is_empty() {
            return Err((format!("no .entry in {} bytes", text.len()), bad));
        }
        let m = put(&mut w.modules, entries);
        // Safety: the caller's to write.
        unsafe { *to = handle(m) };
        Ok(format!("m{m}"))
    });
    if code == 0 { Ok(0) } else { Err((code, "fake: the module has no kernel that it could compile".into())) }
}
pub fn unload(name: &str, module: *mut c_void) -> Code {
    call(name, &format!("m{}", index(module)), |w| {
        current()?;
        w.modules.get_mut(index(module)).and_then(Option::take).map(|_| String::new()).ok_or_else(|| none("module"))
    })
}
pub unsafe fn function(name: &str, to: *mut *mut c_void, module: *mut c_void, symbol: *const c_char) -> Code {
    // Safety: a C string of the caller.
    let symbol = unsafe { CStr::from_ptr(symbol) }.to_string_lossy().into_owned();
    call(name, &format!("m{}, {symbol}", index(module)), |w| {
        let entries = w.modules.get(index(module)).and_then(Option::as_ref).ok_or_else(|| none("module"))?;
        let at = entries.iter().position(|e| e.0 == symbol).ok_or(("not found".into(), NOT_FOUND))?;
        w.functions.push((index(module), at));
        // Safety: the caller's to write.
        unsafe { *to = handle(w.functions.len() - 1) };
        done()
    })
}

/// What a launch asks for, beside the function.
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: *mut c_void,
    pub arguments: *mut *mut c_void,
}
pub unsafe fn launch(name: &str, f: *mut c_void, l: &Launch) -> Code {
    let text = {
        let w = world();
        let found = w.functions.get(index(f)).and_then(|(m, e)| w.modules[*m].as_ref().map(|x| &x[*e]));
        found.map(|(symbol, parameters)| {
            let argument = |(i, p): (usize, &Parameter)| {
                // Safety: one pointer for each parameter, to as many bytes as it has.
                let at = unsafe { *l.arguments.add(i) };
                match p {
                    // Safety: as above.
                    Parameter::Word => format!("u32 {}", unsafe { *at.cast::<u32>() }),
                    // Safety: as above.
                    Parameter::Address => w.address(unsafe { *at.cast::<u64>() }, 0).unwrap_or_else(|e| e),
                }
            };
            let arguments: Vec<String> = parameters.iter().enumerate().map(argument).collect();
            format!("{symbol} grid {:?} block {:?} shared {} [{}]", l.grid, l.block, l.shared, arguments.join(", "))
        })
    };
    let shown = text.clone().unwrap_or_else(|| "?".into());
    call(name, &format!("{shown}, s{}", index(l.stream)), |w| {
        current()?;
        let text = text.ok_or_else(|| none("function"))?;
        if text.contains("!!") {
            return Err(illegal("!! bad argument".into()));
        }
        if w.enqueue(index(l.stream), Op::Launch) { done() } else { Err(none("stream")) }
    })
}

pub unsafe fn stream_create(name: &str, to: *mut *mut c_void, flags: u32) -> Code {
    call(name, &flags.to_string(), |w| {
        current()?;
        let s = put(&mut w.streams, None);
        // Safety: the caller's to write.
        unsafe { *to = handle(s) };
        Ok(format!("s{s}"))
    })
}
pub fn stream_destroy(name: &str, stream: *mut c_void) -> Code {
    call(name, &format!("s{}", index(stream)), |w| {
        w.streams.get_mut(index(stream)).and_then(Option::take).map(|_| String::new()).ok_or_else(|| none("stream"))
    })
}
pub fn stream_wait(name: &str, stream: *mut c_void) -> Code {
    call(name, &format!("s{}", index(stream)), |w| match w.streams.get(index(stream)) {
        Some(Some(None)) => done(),
        Some(Some(Some(_))) => Err(("!! waiting for a capture".into(), 900)),
        _ => Err(none("stream")),
    })
}
/// A stream that is to be asked again, as often as `ZML_FAKE_BUSY` says.
pub fn stream_query(name: &str, stream: *mut c_void) -> Code {
    call(name, &format!("s{}", index(stream)), |w| {
        w.queries += 1;
        if w.queries <= variable("ZML_FAKE_BUSY", "0").parse().unwrap_or(0) {
            return Err(("not ready".into(), NOT_READY));
        }
        done()
    })
}

pub unsafe fn event_create(name: &str, to: *mut *mut c_void) -> Code {
    call(name, "", |w| {
        let e = put(&mut w.events, ());
        // Safety: the caller's to write.
        unsafe { *to = handle(e) };
        Ok(format!("e{e}"))
    })
}
pub fn event_record(name: &str, event: *mut c_void, stream: *mut c_void, flags: u32) -> Code {
    call(name, &format!("e{}, s{}, {flags}", index(event), index(stream)), |w| {
        current()?;
        w.events.get(index(event)).copied().flatten().ok_or_else(|| none("event"))?;
        done()
    })
}
/// A microsecond for each event between the two.
pub unsafe fn event_elapsed(name: &str, to: *mut f32, from: *mut c_void, until: *mut c_void) -> Code {
    call(name, &format!("e{}, e{}", index(from), index(until)), |_| {
        // Safety: the caller's to write.
        unsafe { *to = (index(until) as f32 - index(from) as f32) * 1e-3 };
        done()
    })
}
pub fn event_destroy(name: &str, event: *mut c_void) -> Code {
    call(name, &format!("e{}", index(event)), |w| {
        w.events.get_mut(index(event)).and_then(Option::take).map(|()| String::new()).ok_or_else(|| none("event"))
    })
}

pub fn capture_begin(name: &str, stream: *mut c_void, mode: i32) -> Code {
    call(name, &format!("s{}, mode {mode}", index(stream)), |w| match w.streams.get_mut(index(stream)) {
        Some(Some(capture @ None)) => {
            *capture = Some(vec![]);
            done()
        }
        _ => Err(none("idle stream")),
    })
}
/// A capture ends also where ending it fails.
pub unsafe fn capture_end(name: &str, stream: *mut c_void, to: *mut *mut c_void) -> Code {
    let capture = world().streams.get_mut(index(stream)).and_then(Option::as_mut).and_then(Option::take);
    call(name, &format!("s{}", index(stream)), |w| {
        let ops = capture.ok_or_else(|| none("capture"))?;
        let n = ops.len();
        let g = put(&mut w.graphs, ops);
        // Safety: the caller's to write.
        unsafe { *to = handle(g) };
        Ok(format!("g{g} of {n} nodes"))
    })
}
pub unsafe fn instantiate(name: &str, to: *mut *mut c_void, graph: *mut c_void) -> Code {
    call(name, &format!("g{}", index(graph)), |w| {
        let ops = w.graphs.get(index(graph)).cloned().flatten().ok_or_else(|| none("graph"))?;
        let x = put(&mut w.executables, ops);
        // Safety: the caller's to write.
        unsafe { *to = handle(x) };
        Ok(format!("x{x}"))
    })
}
pub fn graph_launch(name: &str, executable: *mut c_void, stream: *mut c_void) -> Code {
    call(name, &format!("x{}, s{}", index(executable), index(stream)), |w| {
        current()?;
        let ops = w.executables.get(index(executable)).cloned().flatten().ok_or_else(|| none("executable graph"))?;
        World::run(&ops);
        done()
    })
}
pub fn graph_destroy(name: &str, graph: *mut c_void) -> Code {
    call(name, &format!("g{}", index(graph)), |w| {
        w.graphs.get_mut(index(graph)).and_then(Option::take).map(|_| String::new()).ok_or_else(|| none("graph"))
    })
}
pub fn executable_destroy(name: &str, executable: *mut c_void) -> Code {
    call(name, &format!("x{}", index(executable)), |w| {
        let x = w.executables.get_mut(index(executable)).and_then(Option::take);
        x.map(|_| String::new()).ok_or_else(|| none("executable graph"))
    })
}

/// Names and texts of the codes that tests see.
pub fn error_text(code: Code, cuda: bool) -> (&'static CStr, &'static CStr) {
    match (code, cuda) {
        (1, true) => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        (1, false) => (c"hipErrorInvalidValue", c"invalid argument"),
        (2, true) => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        (2, false) => (c"hipErrorOutOfMemory", c"out of memory"),
        (100, true) => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        (100, false) => (c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
        (200, true) => (c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
        (200, false) => (c"hipErrorInvalidImage", c"device kernel image is invalid"),
        (218, true) => (c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
        (500, true) => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        (719, true) => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        (719, false) => (c"hipErrorLaunchFailure", c"unspecified launch failure"),
        _ => (c"FAKE_ERROR", c"no text for this code"),
    }
}
