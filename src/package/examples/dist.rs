//! Packs zmlc itself, for `tools/dist.sh`: an archive and an OCI image layout, with what each holds on stdout.

use std::{error::Error, fs, path::PathBuf};
use zmlc_package::{ToolPlan, source_date_epoch, tool_archive, tool_image};

const USAGE: &str =
    "dist --zmlc FILE --runtime FILE... --licenses DIR --parts FILE [--shell FILE] --archive FILE --oci DIR";

fn main() -> Result<(), Box<dyn Error>> {
    let mut plan = ToolPlan {
        zmlc: PathBuf::new(),
        runtimes: vec![],
        version: env!("CARGO_PKG_VERSION").into(),
        licenses: PathBuf::new(),
        parts: vec![],
        shell: None,
        mtime: source_date_epoch()?,
    };
    let (mut archive, mut oci) = (PathBuf::new(), PathBuf::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = PathBuf::from(arguments.next().ok_or(USAGE)?);
        match option.as_str() {
            "--zmlc" => plan.zmlc = value,
            "--runtime" => plan.runtimes.push(value),
            "--licenses" => plan.licenses = value,
            // NAME|VERSION|LICENCE|PURL, one a line.
            "--parts" => {
                for line in fs::read_to_string(value)?.lines() {
                    let fields: Vec<String> = line.split('|').map(String::from).collect();
                    plan.parts.push(fields.try_into().map_err(|_| format!("`{line}` has not four fields"))?);
                }
            }
            "--shell" => plan.shell = Some(value),
            "--archive" => archive = value,
            "--oci" => oci = value,
            other => return Err(format!("`{other}`: {USAGE}").into()),
        }
    }
    let report = tool_archive(&plan, &archive)?;
    println!("{}: {} bytes, {} unpacked", archive.display(), report.bytes, report.unpacked);
    let report = tool_image(&plan, &oci)?;
    println!("{}: {} {}", oci.display(), report.platform, report.digest);
    for l in &report.layers {
        println!("  {:<16} {:>12} bytes, {:>12} unpacked  {}", l.title, l.bytes, l.unpacked, l.digest);
    }
    report.warnings.iter().for_each(|w| eprintln!("warning: {w}"));
    Ok(())
}
