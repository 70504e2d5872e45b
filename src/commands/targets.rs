//! `zmlc targets`: every profile, which of them a bare `--target NAME` builds, and the devices that it covers.

use crate::{args::Targets, failure::Failure, printer::Printer, targets};
use serde_json::json;
use std::fmt::Write;

pub fn run(args: &Targets, printer: Printer) -> Result<(), Failure> {
    let all = targets::all();
    if let Some(name) = &args.target
        && !all.iter().any(|t| t.name() == name)
    {
        targets::select(name, None)?;
    }
    let (mut text, mut list) = (String::new(), vec![]);
    for t in all.iter().filter(|t| args.target.as_deref().is_none_or(|n| n == t.name())) {
        for s in t.specs() {
            let default = t.defaults().contains(&s.name.as_str());
            let id = format!("{}:{}", t.name(), s.name);
            let _ = writeln!(text, "{id:<24}{} {}", if default { "*" } else { " " }, s.covers);
            list.push(
                json!({"target": t.name(), "profile": s.name, "default": default, "covers": s.covers, "spec": s}),
            );
        }
    }
    text.push_str("\n* built by a bare `--target NAME`\n");
    printer.list(&text, &list);
    Ok(())
}
