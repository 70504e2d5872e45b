//! Vector ops on values: which element goes where. No arithmetic is left of them but reductions, in element order.

use super::{
    rewrite::{Lanes, Rewrite, count},
    scalar::Scalar,
};
use melior::ir::{Attribute, Type, attribute::IntegerAttribute};
use zmlc_passes::{
    ir::{B, O, OperationLike, V, ValueLike, attr, elem, name, operand, operands, read, result, shape},
    pass::PassError,
};

pub fn op<'c>(r: &mut Rewrite<'c>, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
    let y = match name(op) {
        "vector.broadcast" => {
            let x = r.lanes(operand(op, 0));
            let n = count(result(op, 0));
            if x.len() > 1 && !trailing(operand(op, 0).r#type(), result(op, 0).r#type()) {
                return Err(unknown(op));
            }
            x.iter().cycle().take(n).copied().collect()
        }
        "vector.shape_cast" | "vector.from_elements" => {
            operands(op).iter().flat_map(|v| r.lanes(*v)).collect::<Lanes>()
        }
        "vector.to_elements" => {
            for (y, x) in read::results(op).into_iter().zip(r.lanes(operand(op, 0))) {
                r.set(y, vec![x]);
            }
            return Ok(());
        }
        "vector.extract" => {
            let x = r.lanes(operand(op, 0));
            if op.operand_count() > 1 {
                choose(r, b, op, &x)?
            } else {
                let n = count(result(op, 0));
                let at = flat(op, operand(op, 0).r#type(), n)?;
                x[at..at + n].to_vec()
            }
        }
        "vector.insert" if op.operand_count() == 2 => {
            let (x, mut into) = (r.lanes(operand(op, 0)), r.lanes(operand(op, 1)));
            let at = flat(op, operand(op, 1).r#type(), x.len())?;
            into[at..at + x.len()].copy_from_slice(&x);
            into
        }
        "vector.shuffle" => {
            let all: Lanes = operands(op).iter().flat_map(|v| r.lanes(*v)).collect();
            let mask = read::i64s_attr(op, "mask").unwrap_or_default();
            // A negative entry is poison: any element will do.
            mask.into_iter().map(|i| all[i.max(0) as usize]).collect()
        }
        "vector.extract_strided_slice" => {
            let (at, step) = (number(op, "offsets")?, number(op, "strides")?);
            let x = r.lanes(operand(op, 0));
            (0..count(result(op, 0))).map(|i| x[at + i * step]).collect()
        }
        "vector.insert_strided_slice" => {
            let (at, step) = (number(op, "offsets")?, number(op, "strides")?);
            let (x, mut into) = (r.lanes(operand(op, 0)), r.lanes(operand(op, 1)));
            for (i, x) in x.into_iter().enumerate() {
                into[at + i * step] = x;
            }
            into
        }
        "vector.interleave" => {
            let (x, y) = (r.lanes(operand(op, 0)), r.lanes(operand(op, 1)));
            x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect()
        }
        "vector.deinterleave" => {
            let x = r.lanes(operand(op, 0));
            r.set(result(op, 0), x.iter().step_by(2).copied().collect());
            r.set(result(op, 1), x.iter().skip(1).step_by(2).copied().collect());
            return Ok(());
        }
        "vector.step" => (0..count(result(op, 0))).map(|i| b.cidx(i as i64)).collect(),
        "vector.fma" => {
            let [x, y, z] = [0, 1, 2].map(|i| r.lanes(operand(op, i)));
            let scalar = Scalar::plain("math.fma", elem(result(op, 0).r#type()), r.form);
            let mut sums = vec![];
            for ((x, y), z) in x.into_iter().zip(y).zip(z) {
                sums.extend(scalar.emit(b, &[x, y, z])?);
            }
            sums
        }
        "vector.reduction" => vec![reduce(r, b, op)?],
        _ => return Err(unknown(op)),
    };
    r.set(result(op, 0), y);
    Ok(())
}
fn unknown(op: O) -> PassError {
    PassError::Bug(format!("`{}` in this form does not belong in a kernel", name(op)))
}
/// Whether the last extents of `to` are those of `from`.
fn trailing(from: Type, to: Type) -> bool {
    shape(to).ends_with(&shape(from))
}
/// First element of the part that a static position names, parts of `n` elements.
fn flat(op: O, of: Type, n: usize) -> Result<usize, PassError> {
    let position = read::i64s_attr(op, "static_position").ok_or_else(|| unknown(op))?;
    let mut at = 0;
    for (p, extent) in position.iter().zip(shape(of)) {
        at = at * extent + p;
    }
    Ok(at as usize * n)
}
/// The only entry of an array attribute of a vector of rank 1.
fn number(op: O, name: &str) -> Result<usize, PassError> {
    let all: Vec<Attribute> = attr(op, name).map(read::array).unwrap_or_default();
    match all[..] {
        [a] => IntegerAttribute::try_from(a).map(|i| i.value() as usize).map_err(|_| unknown(op)),
        _ => Err(unknown(op)),
    }
}
/// An element at an index that is computed.
fn choose<'c>(r: &Rewrite<'c>, b: &B<'c>, op: O<'c>, x: &[V<'c>]) -> Result<Lanes<'c>, PassError> {
    if op.operand_count() != 2 || count(result(op, 0)) != 1 {
        return Err(unknown(op));
    }
    let at = r.one(operand(op, 1));
    let mut y = x[0];
    for (i, x) in x.iter().enumerate().skip(1) {
        y = b.select(b.cmpi("eq", at, b.cidx(i as i64)), *x, y);
    }
    Ok(vec![y])
}
/// First element to last, an accumulator before them.
fn reduce<'c>(r: &Rewrite<'c>, b: &B<'c>, op: O<'c>) -> Result<V<'c>, PassError> {
    let kind = attr(op, "kind").map(|a| a.to_string()).unwrap_or_default();
    let kind = kind.trim_start_matches("#vector.kind<").trim_end_matches('>');
    let e = elem(operand(op, 0).r#type());
    let arith = match (kind, read::is_float(e)) {
        ("add", true) => "arith.addf",
        ("mul", true) => "arith.mulf",
        ("add", false) => "arith.addi",
        ("mul", false) => "arith.muli",
        ("minui", _) => "arith.minui",
        ("minsi", _) => "arith.minsi",
        ("maxui", _) => "arith.maxui",
        ("maxsi", _) => "arith.maxsi",
        ("minimumf", _) => "arith.minimumf",
        ("maximumf", _) => "arith.maximumf",
        ("minnumf", _) => "arith.minnumf",
        ("maxnumf", _) => "arith.maxnumf",
        ("and", _) => "arith.andi",
        ("or", _) => "arith.ori",
        ("xor", _) => "arith.xori",
        _ => return Err(unknown(op)),
    };
    let scalar = Scalar::plain(arith, e, r.form);
    let mut all = if op.operand_count() > 1 { vec![r.one(operand(op, 1))] } else { vec![] };
    all.extend(r.lanes(operand(op, 0)));
    let mut sum = all[0];
    for x in &all[1..] {
        sum = scalar.emit(b, &[sum, *x])?[0];
    }
    Ok(sum)
}
