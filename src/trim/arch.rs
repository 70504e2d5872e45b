//! GPU architectures by their number, and which code runs on which.

use crate::TrimError;
use std::{fmt, str::FromStr};

/// `sm_90` is 90. What follows the number (`a`, `f`) says what code may use, not which GPU it is. `sm_80+` is that GPU
/// and every newer one, also those that are not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arch {
    number: u32,
    and_newer: bool,
}

impl Arch {
    /// Whether a cubin for `code` runs on this GPU: same major, and no newer minor.
    pub(crate) fn runs(self, code: u32) -> bool {
        if self.and_newer {
            code / 10 >= self.number / 10
        } else {
            code / 10 == self.number / 10 && code <= self.number
        }
    }
    /// Whether the driver can compile PTX for `code` for this GPU.
    pub(crate) fn compiles(self, code: u32) -> bool {
        self.and_newer || code <= self.number
    }
    /// Whether cubins alone serve it if one of them runs on it.
    pub(crate) fn is_one_gpu(self) -> bool {
        !self.and_newer
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, if self.and_newer { "+" } else { "" })
    }
}

impl FromStr for Arch {
    type Err = TrimError;
    fn from_str(text: &str) -> Result<Self, TrimError> {
        let name = text.strip_prefix("sm_");
        let and_newer = text.ends_with('+');
        let number = name.map(|t| t.strip_suffix(['a', 'f', '+']).unwrap_or(t));
        match number.and_then(|n| n.parse().ok()) {
            Some(number @ 20..=999) => Ok(Arch { number, and_newer }),
            _ => Err(TrimError::Arch(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility".
    #[test]
    fn what_runs_where() {
        let a: Arch = "sm_86".parse().unwrap();
        assert!(a.runs(80) && a.runs(86) && !a.runs(89) && !a.runs(75) && !a.runs(90));
        assert!(a.compiles(50) && a.compiles(86) && !a.compiles(90));
        assert_eq!("sm_90a".parse::<Arch>().unwrap(), "sm_90".parse().unwrap());
        assert!("sm_121".parse::<Arch>().unwrap().runs(120));
        assert!(!"sm_120".parse::<Arch>().unwrap().runs(100));
        let newer: Arch = "sm_86+".parse().unwrap();
        assert!(newer.runs(80) && newer.runs(90) && newer.runs(120) && !newer.runs(75) && newer.compiles(120));
        assert_eq!(newer.to_string(), "sm_86+");
        for bad in ["sm_+", "sm_80a+", "90", "sm_", "sm_9x", "gfx942", "sm_-90"] {
            assert!(bad.parse::<Arch>().is_err(), "{bad}");
        }
    }
}
