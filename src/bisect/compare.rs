//! Whether results are those of the reference: integers and predicates exactly, floats within a tolerance.

use zmlc_passes::evaluate::Tensor;

/// Of floats; what is not given is the type's. `absolute` is a part of the largest number of the reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    pub relative: Option<f64>,
    pub absolute: Option<f64>,
}
impl Tolerance {
    /// How far elements may be from this reference, relative to each and beside that. Room for the order of a sum and for
    /// the functions of a kernel; none for integers.
    pub fn of(self, expected: &Tensor) -> (f64, f64) {
        let roundoff = expected.kind.roundoff();
        if roundoff == 0.0 {
            return (0.0, 0.0);
        }
        let numbers = expected.words.iter().map(|w| expected.kind.number(*w).abs());
        let largest = numbers.filter(|x| x.is_finite()).fold(0.0, f64::max);
        let relative = self.relative.unwrap_or((2048.0 * roundoff).min(0.05));
        (relative, self.absolute.unwrap_or((128.0 * roundoff).min(0.02)) * largest)
    }
}

#[derive(Clone, Debug)]
pub struct Difference {
    /// Of the first element that differs.
    pub index: Vec<i64>,
    pub found: f64,
    pub expected: f64,
    /// Elements that differ.
    pub wrong: usize,
    pub elements: usize,
}

pub fn difference(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Option<Difference> {
    let kind = expected.kind;
    let (relative, floor) = tolerance.of(expected);
    let number = |t: &Tensor, i: usize| kind.number(t.words[i]);
    let same = |i: usize| {
        if !kind.is_float() {
            return found.words[i] == expected.words[i];
        }
        let (x, y) = (number(found, i), number(expected, i));
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= floor + relative * y.abs() && y.is_finite()
    };
    let mut wrong = (0..expected.words.len()).filter(|i| !same(*i));
    let element = wrong.next()?;
    let mut left = element as i64;
    let mut index = vec![0; expected.shape.len()];
    for (i, extent) in index.iter_mut().zip(&expected.shape).rev() {
        *i = left % extent;
        left /= extent;
    }
    Some(Difference {
        index,
        found: number(found, element),
        expected: number(expected, element),
        wrong: 1 + wrong.count(),
        elements: expected.words.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmlc_passes::evaluate::Kind;

    fn tensor(kind: Kind, x: &[f64]) -> Tensor {
        Tensor { kind, shape: vec![2, x.len() as i64 / 2], words: x.iter().map(|x| kind.word(*x)).collect() }
    }

    #[test]
    fn the_first_element_that_differs() {
        let want = tensor(Kind::F32, &[1.0, 2.0, 3.0, f64::NAN]);
        assert!(difference(&tensor(Kind::F32, &[1.0, 2.000001, 3.0, f64::NAN]), &want, Tolerance::default()).is_none());
        let d = difference(&tensor(Kind::F32, &[1.0, 2.0, 3.1, 4.0]), &want, Tolerance::default()).unwrap();
        assert_eq!((&d.index[..], d.wrong), (&[1, 0][..], 2));
    }

    #[test]
    fn integers_are_exact() {
        let want = tensor(Kind::Int(1), &[1.0, 0.0]);
        assert!(difference(&want, &want, Tolerance::default()).is_none());
        assert!(difference(&tensor(Kind::Int(1), &[1.0, 1.0]), &want, Tolerance::default()).is_some());
    }
}
