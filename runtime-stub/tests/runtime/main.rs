//! The runtime from outside: through its library and as a program. One test program, so that it links once.

mod bench;
mod cache;
mod cli;
mod common;
mod fakes;
mod faults;
mod files;
mod first_start;
mod kernels;
mod library;
mod native;
mod programs;
mod ptx;
mod versions;
mod weights;

/// Counts what each thread allocates on the host.
struct Counting;
thread_local! {
    static ALLOCATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
// Safety: all is the system's allocator; the count is a plain number of the thread.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // Safety: as the caller promises.
        unsafe { std::alloc::System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        // Safety: as the caller promises.
        unsafe { std::alloc::System.dealloc(at, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

/// Of this thread so far.
pub fn host_allocations() -> u64 {
    ALLOCATIONS.with(std::cell::Cell::get)
}
