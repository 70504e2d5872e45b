//! The functions that both libraries have, under the names of each.

use crate::{
    shared::{self, Way},
    world::Code,
};
use std::ffi::{c_char, c_void};

type Handle = *mut c_void;

both! {
    cuDriverGetVersion hipDriverGetVersion(to: *mut i32) |n| shared::version(n, to);
    cuDeviceGetCount hipGetDeviceCount(to: *mut i32) |n| shared::count(n, to);
    cuDeviceGetName hipDeviceGetName(to: *mut c_char, _room: i32, device: i32) |n| shared::device_name(n, to, device);
    cuMemAlloc_v2 hipMalloc(to: *mut u64, bytes: usize) |n| shared::allocate(n, to, bytes, false);
    cuMemFree_v2 hipFree(at: u64) |n| shared::free(n, at);
    cuMemHostAlloc hipHostMalloc(to: *mut u64, bytes: usize, _flags: u32) |n| shared::allocate(n, to, bytes, true);
    cuMemFreeHost hipHostFree(at: u64) |n| shared::free(n, at);
    cuMemcpyHtoDAsync_v2 hipMemcpyHtoDAsync(to: u64, from: u64, bytes: usize, s: Handle) |n| shared::copy(n, to, from, bytes, s, Way::Up);
    cuMemcpyDtoHAsync_v2 hipMemcpyDtoHAsync(to: u64, from: u64, bytes: usize, s: Handle) |n| shared::copy(n, to, from, bytes, s, Way::Down);
    cuMemcpyDtoDAsync_v2 hipMemcpyDtoDAsync(to: u64, from: u64, bytes: usize, s: Handle) |n| shared::copy(n, to, from, bytes, s, Way::Within);
    cuMemsetD8Async hipMemsetD8Async(to: u64, byte: u8, bytes: usize, s: Handle) |n| shared::fill(n, to, byte, bytes, s);
    cuModuleUnload hipModuleUnload(module: Handle) |n| shared::unload(n, module);
    cuModuleGetFunction hipModuleGetFunction(to: *mut Handle, module: Handle, symbol: *const c_char) |n| shared::function(n, to, module, symbol);
    cuLaunchKernel hipModuleLaunchKernel(f: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, arguments: *mut Handle, _extra: *mut Handle)
        |n| shared::launch(n, f, &shared::Launch { grid: [gx, gy, gz], block: [bx, by, bz], shared, stream, arguments });
    cuStreamCreate hipStreamCreateWithFlags(to: *mut Handle, flags: u32) |n| shared::stream_create(n, to, flags);
    cuStreamDestroy_v2 hipStreamDestroy(s: Handle) |n| shared::stream_destroy(n, s);
    cuStreamSynchronize hipStreamSynchronize(s: Handle) |n| shared::stream_wait(n, s);
    cuStreamQuery hipStreamQuery(s: Handle) |n| shared::stream_query(n, s);
    cuEventCreate hipEventCreateWithFlags(to: *mut Handle, _flags: u32) |n| shared::event_create(n, to);
    cuEventRecordWithFlags hipEventRecordWithFlags(e: Handle, s: Handle, flags: u32) |n| shared::event_record(n, e, s, flags);
    cuEventElapsedTime hipEventElapsedTime(to: *mut f32, from: Handle, until: Handle) |n| shared::event_elapsed(n, to, from, until);
    cuEventDestroy_v2 hipEventDestroy(e: Handle) |n| shared::event_destroy(n, e);
    cuStreamBeginCapture_v2 hipStreamBeginCapture(s: Handle, mode: i32) |n| shared::capture_begin(n, s, mode);
    cuStreamEndCapture hipStreamEndCapture(s: Handle, to: *mut Handle) |n| shared::capture_end(n, s, to);
    cuGraphInstantiateWithFlags hipGraphInstantiateWithFlags(to: *mut Handle, graph: Handle, _flags: u64) |n| shared::instantiate(n, to, graph);
    cuGraphLaunch hipGraphLaunch(x: Handle, s: Handle) |n| shared::graph_launch(n, x, s);
    cuGraphExecDestroy hipGraphExecDestroy(x: Handle) |n| shared::executable_destroy(n, x);
    cuGraphDestroy hipGraphDestroy(graph: Handle) |n| shared::graph_destroy(n, graph);
}
