//! GPU architectures by their number, and which code runs on which.

use crate::TrimError;
use std::{fmt, str::FromStr};

/// One GPU, or one and all newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arch(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// `sm_90` is 90. What follows the number (`a`, `f`) says what code may use, not which GPU it is. `sm_80+` is that
    /// GPU and every newer one, also those that are not made yet.
    Nvidia { number: u32, and_newer: bool },
    /// `gfx90a` is 0x90a. Code runs on that GPU and no other.
    Amd(u32),
}

impl Arch {
    /// Whether a cubin for `code` runs on this GPU: same major, and no newer minor.
    pub(crate) fn runs(self, code: u32) -> bool {
        match self.0 {
            Kind::Nvidia { number, and_newer: true } => code / 10 >= number / 10,
            Kind::Nvidia { number, and_newer: false } => code / 10 == number / 10 && code <= number,
            Kind::Amd(_) => false,
        }
    }
    /// Whether the driver can compile PTX for `code` for this GPU.
    pub(crate) fn compiles(self, code: u32) -> bool {
        matches!(self.0, Kind::Nvidia { number, and_newer } if and_newer || code <= number)
    }
    /// Whether cubins alone serve it if one of them runs on it.
    pub(crate) fn is_one_gpu(self) -> bool {
        !matches!(self.0, Kind::Nvidia { and_newer: true, .. })
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Kind::Nvidia { number, and_newer } => write!(f, "sm_{number}{}", if and_newer { "+" } else { "" }),
            Kind::Amd(number) => write!(f, "gfx{number:x}"),
        }
    }
}

impl FromStr for Arch {
    type Err = TrimError;
    fn from_str(text: &str) -> Result<Self, TrimError> {
        let bad = || TrimError::Arch(text.into());
        if let Some(name) = text.strip_prefix("gfx") {
            let digits = (3..=5).contains(&name.len()) && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let number = u32::from_str_radix(name, 16).ok().filter(|_| digits && !name.starts_with('0'));
            return number.map(|n| Arch(Kind::Amd(n))).ok_or_else(bad);
        }
        let and_newer = text.ends_with('+');
        let number = text.strip_prefix("sm_").map(|t| t.strip_suffix(['a', 'f', '+']).unwrap_or(t));
        match number.and_then(|n| n.parse().ok()) {
            Some(number @ 20..=999) => Ok(Arch(Kind::Nvidia { number, and_newer })),
            _ => Err(bad()),
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
        let amd: Arch = "gfx90a".parse().unwrap();
        assert!(amd.to_string() == "gfx90a" && !amd.runs(90) && !amd.compiles(50));
        for bad in ["sm_+", "sm_80a+", "90", "sm_", "sm_9x", "sm_-90", "gfx9", "gfx90A", "gfx+942"] {
            assert!(bad.parse::<Arch>().is_err(), "{bad}");
        }
    }
}
