//! Linear algebra by custom calls: what replaces them is verified, and its results are what the routine promises.

use zmlc_import::{
    Diagnostics, Source,
    interp::{Tensor, eval},
    prepare, read,
    tree::DType,
    verify,
};

type C = (f64, f64);

/// A matrix, row by row.
#[derive(Clone)]
struct M {
    rows: usize,
    columns: usize,
    v: Vec<C>,
}
impl M {
    fn at(&self, i: usize, j: usize) -> C {
        self.v[i * self.columns + j]
    }
    fn new(rows: usize, columns: usize, f: impl Fn(usize, usize) -> C) -> M {
        let v = (0..rows * columns).map(|k| f(k / columns, k % columns)).collect();
        M { rows, columns, v }
    }
    fn adjoint(&self) -> M {
        M::new(self.columns, self.rows, |i, j| (self.at(j, i).0, -self.at(j, i).1))
    }
    fn times(&self, o: &M) -> M {
        assert_eq!(self.columns, o.rows);
        M::new(self.rows, o.columns, |i, j| {
            (0..self.columns).fold((0.0, 0.0), |s, k| {
                let (a, b) = (self.at(i, k), o.at(k, j));
                (s.0 + a.0 * b.0 - a.1 * b.1, s.1 + a.0 * b.1 + a.1 * b.0)
            })
        })
    }
    fn diagonal(d: &[f64], rows: usize, columns: usize) -> M {
        M::new(rows, columns, |i, j| (if i == j && i < d.len() { d[i] } else { 0.0 }, 0.0))
    }
    #[track_caller]
    fn is(&self, o: &M) {
        assert_eq!((self.rows, self.columns), (o.rows, o.columns));
        let worst = self.v.iter().zip(&o.v).map(|(a, b)| (a.0 - b.0).abs().max((a.1 - b.1).abs())).fold(0.0, f64::max);
        assert!(worst < 2e-5, "{worst}\n{:?}\n{:?}", self.v, o.v);
    }
    #[track_caller]
    fn is_unitary(&self) {
        self.adjoint().times(self).is(&M::diagonal(&vec![1.0; self.columns], self.columns, self.columns));
    }
}

/// Numbers that are the same on every machine.
fn some(n: usize, seed: u64) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(((s >> 33) as f32) / (1u64 << 30) as f32 - 1.0)
        })
        .collect()
}
/// Matrices one after another.
fn matrices(batch: usize, rows: usize, columns: usize, complex: bool, seed: u64) -> Vec<M> {
    let re = some(batch * rows * columns, seed);
    let im = if complex { some(re.len(), seed + 100) } else { vec![0.0; re.len()] };
    let all: Vec<C> = re.into_iter().zip(im).collect();
    all.chunks(rows * columns).map(|c| M { rows, columns, v: c.to_vec() }).collect()
}
fn tensor(list: &[M], complex: bool) -> Tensor {
    let bytes = list.iter().flat_map(|m| &m.v).flat_map(|x| {
        let parts = if complex { vec![x.0 as f32, x.1 as f32] } else { vec![x.0 as f32] };
        parts.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    });
    let shape = [list.len() as u64, list[0].rows as u64, list[0].columns as u64];
    Tensor::new(if complex { DType::C64 } else { DType::F32 }, &shape, bytes.collect()).expect("the bytes fit")
}
fn reals(t: &Tensor) -> Vec<f64> {
    assert_eq!(t.dtype, DType::F32);
    t.bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4")))).collect()
}
fn integers(t: &Tensor) -> Vec<i32> {
    assert_eq!(t.dtype, DType::I32);
    t.bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().expect("4"))).collect()
}
fn back(t: &Tensor) -> Vec<M> {
    let n = t.shape.len();
    let (rows, columns) = (t.shape[n - 2] as usize, t.shape[n - 1] as usize);
    let floats: Vec<f64> =
        t.bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4")))).collect();
    let all: Vec<C> = match t.dtype {
        DType::C64 => floats.chunks_exact(2).map(|c| (c[0], c[1])).collect(),
        _ => floats.into_iter().map(|x| (x, 0.0)).collect(),
    };
    all.chunks(rows * columns).map(|c| M { rows, columns, v: c.to_vec() }).collect()
}

/// Runs a program of one call.
fn run(target: &str, config: &str, types: (&[String], &[String]), args: Vec<Tensor>) -> Vec<Tensor> {
    let names = |n: usize, p: &str| (0..n).map(|i| format!("%{p}{i}")).collect::<Vec<_>>().join(", ");
    let n = types.1.len();
    let results =
        if n == 1 { "%r#0".to_string() } else { (0..n).map(|i| format!("%r#{i}")).collect::<Vec<_>>().join(", ") };
    let arguments: Vec<String> = types.0.iter().enumerate().map(|(i, t)| format!("%a{i}: {t}")).collect();
    let (i, o) = (types.0.join(", "), types.1.join(", "));
    let text = format!(
        "func.func @main({}) -> ({o}) {{\n  %r:{n} = \"stablehlo.custom_call\"({}) {{call_target_name = \"{target}\", mhlo.backend_config = {{{config}}}}} : ({i}) -> ({o})\n  return {results} : {o}\n}}\n",
        arguments.join(", "),
        names(types.0.len(), "a"),
    );
    let source = Source::new(target, text);
    let p = read(&source).unwrap_or_else(|e| panic!("{e}"));
    let p = prepare(p, "main", None).unwrap_or_else(|e| panic!("{}", Diagnostics::from(e).locate(&source)));
    let found = Diagnostics::from(verify(&p));
    assert!(!found.has_errors(), "{found}\n{}", zmlc_import::print(&p));
    eval(&p, "main", args).unwrap_or_else(|e| panic!("{e:?}"))
}
fn f(complex: bool, shape: &[usize]) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{}>", if complex { "complex<f32>" } else { "f32" })
}
fn i(shape: &[usize]) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}i32>")
}

#[test]
fn lu_with_pivots() {
    for (complex, target) in [(false, "lapack_sgetrf_ffi"), (true, "lapack_cgetrf_ffi"), (false, "cusolver_getrf_ffi")]
    {
        for (b, m, n) in [(1, 4, 4), (2, 3, 5), (2, 5, 3), (1, 1, 1)] {
            let k = m.min(n);
            let a = matrices(b, m, n, complex, (m * 10 + n) as u64);
            let out = run(
                target,
                "",
                (&[f(complex, &[b, m, n])], &[f(complex, &[b, m, n]), i(&[b, k]), i(&[b])]),
                vec![tensor(&a, complex)],
            );
            let (packed, pivots, info) = (back(&out[0]), integers(&out[1]), integers(&out[2]));
            assert!(info.iter().all(|x| *x == 0));
            for (e, a) in a.iter().enumerate() {
                let lu = &packed[e];
                let l = M::new(m, k, |i, j| if i > j { lu.at(i, j) } else { (f64::from(u8::from(i == j)), 0.0) });
                let u = M::new(k, n, |i, j| if i <= j { lu.at(i, j) } else { (0.0, 0.0) });
                let mut order: Vec<usize> = (0..m).collect();
                for (i, p) in pivots[e * k..][..k].iter().enumerate() {
                    order.swap(i, *p as usize - 1);
                }
                l.times(&u).is(&M::new(m, n, |i, j| a.at(order[i], j)));
                assert!(l.v.iter().all(|x| x.0.abs() < 1.5 && x.1.abs() < 1.5), "the largest are the pivots");
            }
        }
    }
}

#[test]
fn a_singular_matrix_says_where() {
    let a = [M { rows: 2, columns: 2, v: vec![(1.0, 0.0), (2.0, 0.0), (2.0, 0.0), (4.0, 0.0)] }];
    let out = run(
        "lapack_sgetrf_ffi",
        "",
        (&[f(false, &[1, 2, 2])], &[f(false, &[1, 2, 2]), i(&[1, 2]), i(&[1])]),
        vec![tensor(&a, false)],
    );
    assert_eq!(reals(&out[0]), [2.0, 4.0, 0.5, 0.0]);
    assert_eq!((integers(&out[1]), integers(&out[2])), (vec![2, 2], vec![2]));
}

#[test]
fn pivots_become_a_permutation() {
    let p =
        Tensor::new(DType::I32, &[2, 2], [2i32, 1, 1, 3].iter().flat_map(|v| v.to_le_bytes()).collect()).expect("fits");
    for target in ["cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation"] {
        let out = run(target, "", (&[i(&[2, 2])], &[i(&[2, 4])]), vec![p.clone()]);
        assert_eq!(integers(&out[0]), [2, 1, 0, 3, 1, 3, 2, 0]);
    }
}

#[test]
fn qr_by_reflectors() {
    for (complex, names) in [
        (false, ["lapack_sgeqrf_ffi", "lapack_sorgqr_ffi"]),
        (true, ["lapack_cgeqrf_ffi", "lapack_cungqr_ffi"]),
        (false, ["cusolver_geqrf_ffi", "cusolver_orgqr_ffi"]),
        (true, ["Qr", "ProductOfElementaryHouseholderReflectors"]),
    ] {
        for (b, m, n) in [(1, 4, 4), (2, 5, 3), (1, 1, 1)] {
            let a = matrices(b, m, n, complex, (m * 20 + n) as u64);
            let both = [f(complex, &[b, m, n]), f(complex, &[b, n])];
            let packed = run(names[0], "", (&both[..1], &both), vec![tensor(&a, complex)]);
            let q = run(names[1], "", (&both, &both[..1]), packed.clone());
            for ((a, r), q) in a.iter().zip(back(&packed[0])).zip(back(&q[0])) {
                q.is_unitary();
                let r = M::new(n, n, |i, j| if i <= j { r.at(i, j) } else { (0.0, 0.0) });
                q.times(&r).is(a);
            }
        }
    }
}

#[test]
fn eigenvalues_of_hermitian_matrices() {
    for (complex, target, config) in [
        (false, "lapack_ssyevd_ffi", "mode = 86 : ui8, uplo = 76 : ui8"),
        (true, "lapack_cheevd_ffi", "mode = 86 : ui8, uplo = 85 : ui8"),
        (false, "hipsolver_syevd_ffi", "algorithm = 0 : ui8, lower = true"),
    ] {
        for (b, n) in [(1, 5), (2, 4), (1, 1), (1, 2)] {
            let a: Vec<M> = matrices(b, n, n, complex, n as u64)
                .iter()
                .map(|x| M::new(n, n, |i, j| (x.at(i, j).0 + x.at(j, i).0, x.at(i, j).1 - x.at(j, i).1)))
                .collect();
            let out = run(
                target,
                config,
                (&[f(complex, &[b, n, n])], &[f(complex, &[b, n, n]), f(false, &[b, n]), i(&[b])]),
                vec![tensor(&a, complex)],
            );
            let w = reals(&out[1]);
            for (e, (a, v)) in a.iter().zip(back(&out[0])).enumerate() {
                let w = &w[e * n..][..n];
                assert!(w.windows(2).all(|x| x[0] <= x[1]), "{w:?}");
                v.is_unitary();
                a.times(&v).is(&v.times(&M::diagonal(w, n, n)));
            }
        }
    }
}

#[test]
fn one_triangle_is_read() {
    let with = |other: f64| {
        let a = [M { rows: 2, columns: 2, v: vec![(2.0, 0.0), (other, 0.0), (1.0, 0.0), (2.0, 0.0)] }];
        let types = ([f(false, &[1, 2, 2])], [f(false, &[1, 2, 2]), f(false, &[1, 2]), i(&[1])]);
        reals(
            &run(
                "lapack_ssyevd_ffi",
                "mode = 86 : ui8, uplo = 76 : ui8",
                (&types.0, &types.1),
                vec![tensor(&a, false)],
            )[1],
        )
    };
    assert_eq!(with(77.0), with(1.0));
    assert!((with(0.0)[0] - 1.0).abs() < 1e-6 && (with(0.0)[1] - 3.0).abs() < 1e-6);
}

/// U, values and V^H of what a call gives.
fn check_svd(a: &M, u: &M, s: &[f64], vh: &M) {
    assert!(s.windows(2).all(|x| x[0] >= x[1]) && s.iter().all(|x| *x >= 0.0), "{s:?}");
    u.is_unitary();
    vh.adjoint().is_unitary();
    u.times(&M::diagonal(s, u.columns, vh.rows)).times(vh).is(a);
}

#[test]
fn singular_values_and_vectors() {
    for (complex, target) in [(false, "lapack_sgesdd_ffi"), (true, "lapack_cgesdd_ffi")] {
        for (b, m, n, full) in
            [(1, 4, 4, false), (2, 5, 3, false), (1, 3, 5, false), (1, 5, 3, true), (1, 2, 5, true), (1, 1, 1, true)]
        {
            let k = m.min(n);
            let a = matrices(b, m, n, complex, (m * 30 + n) as u64);
            let (u, v) = if full { (m, n) } else { (k, k) };
            let out = run(
                target,
                &format!("mode = {} : ui8", if full { 65 } else { 83 }),
                (
                    &[f(complex, &[b, m, n])],
                    &[
                        f(complex, &[b, m, n]),
                        f(false, &[b, k]),
                        f(complex, &[b, m, u]),
                        f(complex, &[b, v, n]),
                        i(&[b]),
                    ],
                ),
                vec![tensor(&a, complex)],
            );
            let s = reals(&out[1]);
            for (e, a) in a.iter().enumerate() {
                check_svd(a, &back(&out[2])[e], &s[e * k..][..k], &back(&out[3])[e]);
            }
        }
    }
}

#[test]
fn singular_vectors_of_gpu_libraries() {
    // gesvdj gives V, not its adjoint; a transposed gesvd changes the places of U and V^H.
    let (m, n) = (4, 3);
    let a = matrices(1, m, n, true, 9);
    let list = [f(true, &[1, m, n]), f(false, &[1, n]), f(true, &[1, m, m]), f(true, &[1, n, n]), i(&[1])];
    let out = run(
        "cusolver_gesvdj_ffi",
        "compute_uv = true, full_matrices = true",
        (&list[..1], &list),
        vec![tensor(&a, true)],
    );
    check_svd(&a[0], &back(&out[2])[0], &reals(&out[1]), &back(&out[3])[0].adjoint());
    let a = matrices(1, n, m, false, 10);
    let list = [f(false, &[1, n, m]), f(false, &[1, n]), f(false, &[1, n, m]), f(false, &[1, n, n]), i(&[1])];
    let config = "compute_uv = true, full_matrices = false, transposed = true";
    let out = run("cusolver_gesvd_ffi", config, (&list[..1], &list), vec![tensor(&a, false)]);
    check_svd(&a[0], &back(&out[3])[0], &reals(&out[1]), &back(&out[2])[0]);
}

#[test]
fn a_rank_below_the_size() {
    let (x, y) = (some(5, 1), some(3, 2));
    let a = [M::new(5, 3, |i, j| (x[i] * y[j], 0.0))];
    let list = [f(false, &[1, 5, 3]), f(false, &[1, 3]), f(false, &[1, 5, 3]), f(false, &[1, 3, 3]), i(&[1])];
    let out = run("lapack_sgesdd_ffi", "mode = 83 : ui8", (&list[..1], &list), vec![tensor(&a, false)]);
    check_svd(&a[0], &back(&out[2])[0], &reals(&out[1]), &back(&out[3])[0]);
    assert!(reals(&out[1])[1] < 1e-6);
}

#[test]
fn other_routines_are_refused_by_name() {
    let text = "func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
      %r = stablehlo.custom_call @lapack_sgehrd_ffi(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>
      return %r : tensor<3x3xf32>
    }";
    let e = prepare(read(Source::new("t", text)).expect("reads"), "main", None).unwrap_err();
    assert_eq!((e.len(), e[0].code), (1, "E0602"));
    assert!(e[0].message.contains("lapack_sgehrd_ffi"));
}
