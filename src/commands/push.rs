//! `zmlc push LAYOUT REGISTRY/NAME:TAG`: sends an OCI image layout to a registry.

use super::package::failure;
use crate::{args::Push, failure::Failure, printer::Printer};
use serde_json::json;
use std::path::Path;
use zmlc_package::{Credentials, Reference};

pub fn run(args: &Push, printer: Printer) -> Result<(), Failure> {
    let to = args.reference.parse().map_err(|e| failure(&e))?;
    push(&args.layout, &to, printer)
}

pub fn push(layout: &Path, to: &Reference, printer: Printer) -> Result<(), Failure> {
    let progress = &mut |digest: &str, bytes| printer.note(&format!("sending {digest}, {bytes} bytes"));
    let report = zmlc_package::push(layout, to, &Credentials::from_environment(), progress).map_err(|e| failure(&e))?;
    let bytes: u64 = report.sent.iter().map(|(_, n)| n).sum();
    let (sent, present) = (report.sent.len(), report.present.len());
    printer.result(
        &format!("{to}: {}\n  {sent} blobs sent, {bytes} bytes; {present} were there\n", report.digest),
        &json!({"reference": to.to_string(), "digest": report.digest, "sent": sent, "bytes": bytes, "present": present}),
    );
    Ok(())
}
