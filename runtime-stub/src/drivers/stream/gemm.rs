//! Matrix products by the vendor's library, cublasLt or hipBLASLt, from the package's own folder and nowhere else.
//!
//! The libraries count columns first: row-major `to = a b` is to them `toT = bT aT`.

use super::{
    Failed,
    api::{Address, Code, Flavor, Stream},
    check,
};
use crate::{drivers::Unavailable, error::Error, libraries};
use libloading::Library;
use std::{
    ffi::c_void,
    path::PathBuf,
    ptr::{from_ref, null_mut},
    sync::Mutex,
};
use zml_format::{DType, Gemm, Matrix};

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> Code;
type Destroy = unsafe extern "C" fn(Handle) -> Code;
type Set = unsafe extern "C" fn(Handle, i32, *const c_void, usize) -> Code;

macro_rules! table {
    ($($field:ident: $t:ty, $cuda:literal $hip:literal;)*) => {
        struct Table { $($field: ($t, &'static str),)* }
        impl Table {
            /// Safety: the library must be what `flavor` says.
            unsafe fn of(library: &Library, flavor: Flavor) -> Result<Self, &'static str> {
                Ok(Table { $($field: {
                    let name = if flavor == Flavor::Cuda { $cuda } else { $hip };
                    // Safety: as the caller promises; both declare the function so.
                    (*unsafe { library.get::<$t>(name.as_bytes()) }.map_err(|_| name)?, name)
                },)* })
            }
        }
    };
}
table! {
    create: Create, "cublasLtCreate" "hipblasLtCreate";
    product_create: unsafe extern "C" fn(*mut Handle, i32, i32) -> Code, "cublasLtMatmulDescCreate" "hipblasLtMatmulDescCreate";
    product_set: Set, "cublasLtMatmulDescSetAttribute" "hipblasLtMatmulDescSetAttribute";
    product_destroy: Destroy, "cublasLtMatmulDescDestroy" "hipblasLtMatmulDescDestroy";
    layout_create: unsafe extern "C" fn(*mut Handle, i32, u64, u64, i64) -> Code, "cublasLtMatrixLayoutCreate" "hipblasLtMatrixLayoutCreate";
    layout_set: Set, "cublasLtMatrixLayoutSetAttribute" "hipblasLtMatrixLayoutSetAttribute";
    layout_destroy: Destroy, "cublasLtMatrixLayoutDestroy" "hipblasLtMatrixLayoutDestroy";
    preference_create: Create, "cublasLtMatmulPreferenceCreate" "hipblasLtMatmulPreferenceCreate";
    preference_set: Set, "cublasLtMatmulPreferenceSetAttribute" "hipblasLtMatmulPreferenceSetAttribute";
    preference_destroy: Destroy, "cublasLtMatmulPreferenceDestroy" "hipblasLtMatmulPreferenceDestroy";
    heuristic: unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, i32, *mut c_void, *mut i32) -> Code,
        "cublasLtMatmulAlgoGetHeuristic" "hipblasLtMatmulAlgoGetHeuristic";
    product: unsafe extern "C" fn(Handle, Handle, *const c_void, Address, Handle, Address, Handle, *const c_void, Address, Handle,
        Address, Handle, *const c_void, Address, usize, Stream) -> Code, "cublasLtMatmul" "hipblasLtMatmul";
}

/// What differs between the two in numbers.
struct Numbers {
    transpose_first: i32,
    transpose_second: i32,
    keep: i32,
    transpose: i32,
    batch_count: i32,
    batch_stride: i32,
    compute_f32: i32,
    compute_tf32: i32,
    compute_f64: i32,
    compute_i32: i32,
}
const CUDA: Numbers = Numbers {
    transpose_first: 3,
    transpose_second: 4,
    keep: 0,
    transpose: 1,
    batch_count: 5,
    batch_stride: 6,
    compute_f32: 68,
    compute_tf32: 77,
    compute_f64: 70,
    compute_i32: 72,
};
const HIP: Numbers = Numbers {
    transpose_first: 0,
    transpose_second: 1,
    keep: 111,
    transpose: 112,
    batch_count: 0,
    batch_stride: 1,
    compute_f32: 2,
    compute_tf32: 6,
    compute_f64: 7,
    compute_i32: 9,
};
const MAX_WORKSPACE: i32 = 1;
/// `CUBLAS_STATUS_NOT_SUPPORTED`, `HIPBLAS_STATUS_NOT_SUPPORTED`, given where the library has no kernel for a product.
const NO_KERNEL: Code = 15;
/// Of a heuristic's result: 96 bytes in one library, 56 in the other; it begins with the algorithm.
const RESULT: usize = 16;

pub(super) struct Blas {
    table: Table,
    numbers: &'static Numbers,
    handle: Mutex<Context>,
    /// Never unloaded: it leaves threads and handlers behind.
    _library: Library,
}
struct Context(Handle);
// Safety: the handle may be used from any thread.
unsafe impl Send for Context {}

fn name(flavor: Flavor) -> &'static str {
    if flavor == Flavor::Cuda { "libcublasLt.so" } else { "libhipblaslt.so" }
}

/// The library in one of the package's folders.
fn find(flavor: Flavor, folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().find_map(|f| {
        let mut found: Vec<PathBuf> = std::fs::read_dir(f).ok()?.flatten().map(|e| e.path()).collect();
        found.retain(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(name(flavor))));
        found.sort();
        found.pop()
    })
}

/// As [`find`], in the folders of this program's package.
pub(crate) fn locate(flavor: Flavor) -> Result<PathBuf, Unavailable> {
    let folders = libraries::folders();
    find(flavor, &folders).ok_or_else(|| {
        let wanted = name(flavor).trim_end_matches(".so");
        let looked = folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ");
        Unavailable {
            cause: format!("this model multiplies with {wanted}, which is not in {looked}"),
            remedy:
                "put it into the package with [package.vendor] in model.toml, or name its folder with --libraries DIR"
                    .into(),
        }
    })
}

impl Blas {
    /// The device has to be current.
    pub(super) fn open(flavor: Flavor, device: &str) -> Result<Self, Error> {
        let path = locate(flavor).map_err(|u| Error::Library(format!("{}; {}", u.cause, u.remedy)))?;
        let bad = |why: String| Error::Library(format!("{}: {why}", path.display()));
        // Safety: the library is the vendor's by its name, in the package's folder or one that the user chose.
        let library = unsafe { Library::new(&path) }.map_err(|e| bad(e.to_string()))?;
        // Safety: as above.
        let table = unsafe { Table::of(&library, flavor) }.map_err(|f| bad(format!("it has no {f}: it is too old")))?;
        let mut handle = null_mut();
        // Safety: the handle is written before it is read.
        let code = unsafe { (table.create.0)(&raw mut handle) };
        if code != 0 {
            let why = "it may have no code for this GPU, or want a newer driver";
            return Err(bad(format!("{} fails on {device} with status {code}: {why}", table.create.1)));
        }
        let numbers = if flavor == Flavor::Cuda { &CUDA } else { &HIP };
        Ok(Blas { table, numbers, handle: Mutex::new(Context(handle)), _library: library })
    }

    /// Enqueues a product. `addresses`: of a, b, the result and the workspace.
    pub(super) fn product(&self, g: &Gemm, addresses: [Address; 4], stream: Stream) -> Result<(), Failed> {
        let (t, n) = (&self.table, self.numbers);
        let handle = self.handle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0;
        let (compute, scale) = match g.to.dtype {
            DType::F64 => (n.compute_f64, data_type(DType::F64)),
            DType::I32 => (n.compute_i32, data_type(DType::I32)),
            _ => (if g.tf32 { n.compute_tf32 } else { n.compute_f32 }, data_type(DType::F32)),
        };
        let mut made = Made { table: t, product: null_mut(), layouts: [null_mut(); 3], preference: null_mut() };
        // Safety: each handle is written before it is read, and each attribute has the size that is stated.
        unsafe {
            let set = |f: &(Set, &'static str), of: Handle, which: i32, value: &[u8]| {
                check(f.1, (f.0)(of, which, value.as_ptr().cast(), value.len()))
            };
            check(t.product_create.1, (t.product_create.0)(&raw mut made.product, compute, scale))?;
            // Columns first: the second matrix comes first, and one that lies in columns is transposed.
            let operation = |x: &Matrix| if x.strides[2] == 1 { n.keep } else { n.transpose };
            set(&t.product_set, made.product, n.transpose_first, &operation(&g.b).to_le_bytes())?;
            set(&t.product_set, made.product, n.transpose_second, &operation(&g.a).to_le_bytes())?;
            let shapes = [(&g.b, g.k, g.n), (&g.a, g.m, g.k), (&g.to, g.m, g.n)];
            for (layout, (x, height, width)) in made.layouts.iter_mut().zip(shapes) {
                let [batch, rows, columns] = x.strides;
                let (outer, inner, lead) = if columns == 1 { (height, width, rows) } else { (width, height, columns) };
                let lead = lead.max(inner) as i64;
                check(t.layout_create.1, (t.layout_create.0)(layout, data_type(x.dtype), inner, outer, lead))?;
                if g.batch > 1 {
                    set(&t.layout_set, *layout, n.batch_count, &(g.batch as i32).to_le_bytes())?;
                    set(&t.layout_set, *layout, n.batch_stride, &(batch as i64).to_le_bytes())?;
                }
            }
            check(t.preference_create.1, (t.preference_create.0)(&raw mut made.preference))?;
            set(&t.preference_set, made.preference, MAX_WORKSPACE, &g.workspace.bytes.to_le_bytes())?;
            let [first, second, to] = made.layouts;
            let (mut best, mut count) = ([0u64; RESULT], 0);
            let chosen = (t.heuristic.0)(
                handle,
                made.product,
                first,
                second,
                to,
                to,
                made.preference,
                1,
                best.as_mut_ptr().cast(),
                &raw mut count,
            );
            check(t.heuristic.1, if chosen == 0 && count == 0 { NO_KERNEL } else { chosen })?;
            let [a, b, result, workspace] = addresses;
            let (one, zero) = scalars(g.to.dtype);
            let code = (t.product.0)(
                handle,
                made.product,
                from_ref(&one).cast(),
                b,
                first,
                a,
                second,
                from_ref(&zero).cast(),
                result,
                to,
                result,
                to,
                best.as_ptr().cast(),
                workspace,
                g.workspace.bytes as usize,
                stream,
            );
            check(t.product.1, code)
        }
    }
}

/// What a status of this library means; nothing for calls of others.
pub(super) fn describe(call: &str, code: Code) -> Option<String> {
    let why = if code == NO_KERNEL { ": the package's library has no kernel for this product on this GPU" } else { "" };
    (call.starts_with("cublasLt") || call.starts_with("hipblasLt")).then(|| format!("status {code}{why}"))
}

/// 1 and 0 in the type that the library scales in.
fn scalars(to: DType) -> ([u8; 8], [u8; 8]) {
    let mut one = [0; 8];
    match to {
        DType::F64 => one = 1f64.to_le_bytes(),
        DType::I32 => one[..4].copy_from_slice(&1i32.to_le_bytes()),
        _ => one[..4].copy_from_slice(&1f32.to_le_bytes()),
    }
    (one, [0; 8])
}

/// `cudaDataType`, `hipDataType`: the same numbers; FNUZ are of the second alone.
fn data_type(t: DType) -> i32 {
    match t {
        DType::F64 => 1,
        DType::F16 => 2,
        DType::I8 => 3,
        DType::I32 => 10,
        DType::BF16 => 14,
        DType::F8E4M3FN => 28,
        DType::F8E5M2 => 29,
        DType::F8E4M3FNUZ => 1000,
        DType::F8E5M2FNUZ => 1001,
        _ => 0,
    }
}

/// Descriptions of one product, given back whatever happens.
struct Made<'a> {
    table: &'a Table,
    product: Handle,
    layouts: [Handle; 3],
    preference: Handle,
}
impl Drop for Made<'_> {
    fn drop(&mut self) {
        let t = self.table;
        // Safety: each was made by the library, or is null and left alone.
        unsafe {
            if !self.preference.is_null() {
                (t.preference_destroy.0)(self.preference);
            }
            for l in self.layouts.into_iter().filter(|l| !l.is_null()) {
                (t.layout_destroy.0)(l);
            }
            if !self.product.is_null() {
                (t.product_destroy.0)(self.product);
            }
        }
    }
}
