//! The kernels of `kernels.rs` again, as PTX.

/// One module with every kernel, in the order of `KERNELS`.
pub fn module() -> String {
    let add = "ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd3], %f3;";
    let scale = "ld.global.f32 %f1, [%rd1]; cvt.rn.f32.u32 %f2, %r2; mul.f32 %f3, %f1, %f2; st.global.f32 [%rd2], %f3;";
    let below = "ld.global.f32 %f1, [%rd1]; cvt.rn.f32.u32 %f2, %r2; setp.lt.f32 %p2, %f1, %f2;
    selp.u32 %r6, 1, 0, %p2; st.global.u8 [%rd2], %r6;";
    let kernels = [("add", &[4, 4, 4][..], add), ("scale", &[4, 4], scale), ("below", &[4, 1], below)];
    let text = kernels.map(|(name, widths, body)| kernel(name, widths, body)).join("\n");
    format!(".version 7.1\n.target sm_80\n.address_size 64\n{text}")
}

/// `%rd1` and on are the addresses of this thread's elements, of `widths` bytes each; `%r2` is the second scalar.
fn kernel(name: &str, widths: &[u32], body: &str) -> String {
    let count = widths.len();
    let parameters: String = (0..count).map(|i| format!(".param .u64 p{i}, ")).collect();
    let addresses: String = widths
        .iter()
        .enumerate()
        .map(|(i, w)| {
            let r = i + 1;
            format!("    ld.param.u64 %rd{r}, [p{i}]; mad.wide.u32 %rd{r}, %r5, {w}, %rd{r};\n")
        })
        .collect();
    format!(
        ".visible .entry {name}({parameters}.param .u32 n, .param .u32 k) {{
    .reg .pred %p<3>; .reg .f32 %f<4>; .reg .b32 %r<7>; .reg .b64 %rd<4>;
    ld.param.u32 %r1, [n]; ld.param.u32 %r2, [k];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r3, 64, %r4;
    setp.ge.u32 %p1, %r5, %r1; @%p1 bra end;
{addresses}    {body}
end:
    ret;
}}
"
    )
}
