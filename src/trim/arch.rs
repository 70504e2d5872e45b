//! GPU architectures by their number, and which code runs on which.

use crate::TrimError;
use std::{fmt, str::FromStr};

/// `sm_90` is 90. What follows the number (`a`, `f`) says what code may use, not which GPU it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arch(u32);

impl Arch {
    /// Whether a cubin for `code` runs on this GPU: same major, and no newer minor.
    pub(crate) fn runs(self, code: u32) -> bool {
        code / 10 == self.0 / 10 && code <= self.0
    }
    /// Whether the driver can compile PTX for `code` for this GPU.
    pub(crate) fn compiles(self, code: u32) -> bool {
        code <= self.0
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

impl FromStr for Arch {
    type Err = TrimError;
    fn from_str(text: &str) -> Result<Self, TrimError> {
        let number = text.strip_prefix("sm_").map(|t| t.strip_suffix(['a', 'f']).unwrap_or(t));
        match number.and_then(|n| n.parse().ok()) {
            Some(n @ 20..=999) => Ok(Arch(n)),
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
        for bad in ["90", "sm_", "sm_9x", "gfx942", "sm_-90"] {
            assert!(bad.parse::<Arch>().is_err(), "{bad}");
        }
    }
}
