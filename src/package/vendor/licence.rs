//! Whether a licence lets a file be changed before it is passed on. What is not clearly permitted counts as forbidden.

use crate::dpkg;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Licence {
    /// An SPDX expression or the name that the source gives itself; may be empty.
    pub name: String,
    /// Changed copies may be passed on.
    pub may_be_changed: bool,
}

/// A longer text is an agreement with others' licences quoted in it, whose permissions are not about this file.
const LONGEST: usize = 16 << 10;

/// Sentences that grant it, in words alone.
const GRANTS: &[&str] = &[
    "redistribution and use in source and binary forms with or without modification are permitted",
    "permission is hereby granted free of charge to any person obtaining a copy of this software",
    "apache license version 2.0",
    "permission to use copy modify and or distribute this software for any purpose with or without fee is hereby granted",
    "this software is provided as is without any express or implied warranty in no event will the authors be held liable",
];

impl Licence {
    /// From what a source calls its licence and the texts that it comes with. The texts decide, where there are any.
    pub(super) fn of(name: &str, texts: &[String]) -> Self {
        let may_be_changed = if texts.is_empty() { names_permissive(name) } else { texts.iter().all(|t| grants(t)) };
        let by_texts: BTreeSet<String> = texts.iter().flat_map(|t| dpkg::licence_names(t)).collect();
        let name = match name.trim() {
            "" => by_texts.into_iter().collect::<Vec<_>>().join(", "),
            name => name.into(),
        };
        Licence { name, may_be_changed }
    }
}

fn grants(text: &str) -> bool {
    if text.len() > LONGEST {
        return false;
    }
    let kept: String =
        text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { ' ' }).collect();
    let words = kept.split_whitespace().collect::<Vec<_>>().join(" ");
    GRANTS.iter().any(|g| words.contains(g))
}

/// An SPDX expression of permissive licences alone.
fn names_permissive(name: &str) -> bool {
    let permissive = ["Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "NCSA"];
    let words: Vec<&str> =
        name.split([' ', '(', ')']).filter(|w| !w.is_empty() && !["AND", "OR"].contains(w)).collect();
    !words.is_empty() && words.iter().all(|w| permissive.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debian_package_names_its_licences_in_its_text() {
        let text = "Format: https://x\n\nFiles: *\nLicense: Expat\n\nFiles: a\nLicense: BSD-3-clause\n";
        assert_eq!(Licence::of("", &[text.into()]).name, "BSD-3-clause, Expat");
        assert_eq!(Licence::of(" MIT ", &[text.into()]).name, "MIT");
    }

    #[test]
    fn texts_decide() {
        let bsd = "Copyright\n\n Redistribution and use in source and binary forms, with or without\n modification, are permitted provided";
        let of = |name, texts: &[&str]| {
            Licence::of(name, &texts.iter().map(|t| (*t).to_string()).collect::<Vec<_>>()).may_be_changed
        };
        // NCCL's wheel, whose metadata contradicts its licence.
        assert!(of("LicenseRef-NVIDIA-Proprietary", &[bsd]));
        assert!(!of("BSD-3-Clause", &["End User License Agreement: you may not modify"]));
        assert!(!of("x", &[bsd, "You may not modify the SDK"]));
        // An agreement that quotes others' licences.
        assert!(!of("x", &[&format!("{}{bsd}", "You may not. ".repeat(2000))]));
        assert!(of("MIT OR (Apache-2.0 AND BSD-3-Clause)", &[]));
        assert!(!of("", &[]) && !of("Proprietary", &[]) && !of("MIT AND Proprietary", &[]));
    }
}
