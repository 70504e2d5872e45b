//! `bench`: what a call takes, seen from the host, and what each kernel takes, seen from the device.

use super::{args::Run, in_time, load, say, values};
use crate::{
    choose::{by_sizes, specialisations},
    counters::Counters,
    error::Result,
    model::Model,
    session::Session,
    spans::Spans,
    tensor::HostTensor,
    timing::{StepTime, Work},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, process::ExitCode, time::Instant};
use zml_format::{Argument, Artifact, Profile};

/// Inputs of more than this are not written anew for each call that is timed.
const WRITTEN: u64 = 16 << 20;
/// Calls of a timed session, which waits more than others.
const TIMED: u32 = 50;

/// Microseconds.
struct Times(Vec<f64>);
impl Times {
    fn of(n: u32, mut one: impl FnMut() -> Result<f64>) -> Result<Self> {
        let mut all: Vec<f64> = (0..n).map(|_| one()).collect::<Result<_>>()?;
        all.sort_by(f64::total_cmp);
        Ok(Times(all))
    }
    fn at(&self, quantile: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * quantile).round() as usize]
    }
    fn spread(&self) -> f64 {
        self.at(0.75) - self.at(0.25)
    }
    fn json(&self) -> Value {
        json!({"median_us": self.at(0.5), "min_us": self.at(0.0), "p99_us": self.at(0.99), "spread_us": self.spread()})
    }
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Everything measured of one entry.
struct Report<'a> {
    model: &'a Model,
    id: &'a str,
    load: f64,
    first: f64,
    n: u32,
    rows: Vec<(&'static str, Times)>,
    counts: Counters,
    /// Or why there are none. Of this many calls.
    kernels: Result<(Vec<StepTime>, u32)>,
}

pub fn bench(run: &Run, artifact: &mut Artifact, _: &Spans) -> Result<ExitCode> {
    let manifest = &artifact.manifest;
    let entries = by_sizes(&specialisations(manifest, run.entry.as_deref())?, &run.dims)?;
    let entry = values::choose(&entries, &run.inputs)?.clone();
    let id = entry.id();
    let inputs = values::inputs_or_random(&entry, &run.inputs)?;
    // So that a call needs no new inputs; what is in them does not matter.
    for a in artifact.manifest.entries.iter_mut().filter(|e| e.id() == id).flat_map(|e| &mut e.arguments) {
        if let Argument::Input { donated, .. } = a {
            *donated = false;
        }
    }

    let begin = Instant::now();
    let model = load(run, artifact)?;
    let (load, mut session) = (microseconds(begin), Session::new(&model)?);
    session.set_deadline(run.deadline);
    write(&mut session, &id, &inputs)?;
    let timed = |session: &mut Session, times: u32| {
        let begin = Instant::now();
        in_time(run, session.repeat(&id, times))?;
        Ok(microseconds(begin) / f64::from(times))
    };
    let first = timed(&mut session, 1)?;
    let warm = Times::of(3, || timed(&mut session, 1))?.at(0.5);
    let n = run.calls.unwrap_or_else(|| (1e6 / warm).clamp(5.0, 1000.0) as u32);
    Times::of((n / 10).max(3), || timed(&mut session, 1))?;

    let before = session.counters();
    let mut rows = vec![("call", Times::of(n, || timed(&mut session, 1))?)];
    let counts = a_call(before, session.counters(), n);
    if !inputs.is_empty() && inputs.iter().map(|t| t.bytes.len() as u64).sum::<u64>() <= WRITTEN {
        let all = Times::of(n, || {
            let begin = Instant::now();
            write(&mut session, &id, &inputs)?;
            timed(&mut session, 1)?;
            Ok(microseconds(begin))
        })?;
        rows.push(("write and call", all));
    }
    // What one call more takes: the wait and what is read at the end are in the first.
    let more = n.div_ceil(5).max(4);
    let back_to_back = Times::of(5, || {
        let all = timed(&mut session, more + 1)? * f64::from(more + 1);
        Ok((all - timed(&mut session, 1)?).max(0.0) / f64::from(more))
    })?;
    rows.push(("back to back", back_to_back));
    // Its state and buffers make room for those of the next.
    drop(session);
    let kernels = of_kernels(&model, &id, &inputs, n.min(TIMED), |s| timed(s, 1).map(|_| ()));
    let report = Report { model: &model, id: &id, load, first, n, rows, counts, kernels };
    say(&if run.json { report.json() } else { report.text() });
    Ok(ExitCode::SUCCESS)
}

fn write(session: &mut Session, id: &str, inputs: &[HostTensor]) -> Result<()> {
    inputs.iter().enumerate().try_for_each(|(i, t)| session.write(id, i, &t.bytes))
}

fn a_call(from: Counters, to: Counters, n: u32) -> Counters {
    let n = u64::from(n);
    Counters {
        submits: (to.submits - from.submits) / n,
        dispatches: (to.dispatches - from.dispatches) / n,
        barriers: (to.barriers - from.barriers) / n,
        copies: (to.copies - from.copies) / n,
        read_backs: (to.read_backs - from.read_backs) / n,
        allocations: to.allocations - from.allocations,
    }
}

/// Times of `n` calls.
fn of_kernels(
    model: &Model,
    id: &str,
    inputs: &[HostTensor],
    n: u32,
    mut call: impl FnMut(&mut Session) -> Result<()>,
) -> Result<(Vec<StepTime>, u32)> {
    let mut session = Session::timed(model)?;
    write(&mut session, id, inputs)?;
    (0..3).try_for_each(|_| call(&mut session))?;
    let warm = session.times(id)?.to_vec();
    (0..n).try_for_each(|_| call(&mut session))?;
    let mut times = session.times(id)?.to_vec();
    for (t, w) in times.iter_mut().zip(warm) {
        t.runs -= w.runs;
        t.nanoseconds -= w.nanoseconds;
    }
    Ok((times, n))
}

/// What a kernel, or all copies or fills together, take of a call.
struct Row {
    work: Work,
    /// In a call.
    runs: f64,
    us: f64,
    bytes: f64,
}

/// Longest first.
fn by_work(times: &[StepTime], calls: u32) -> Vec<Row> {
    let mut sums: BTreeMap<Work, (f64, f64, f64)> = BTreeMap::new();
    for t in times {
        let (runs, us, bytes) = sums.entry(t.work).or_default();
        *runs += t.runs as f64;
        *us += t.nanoseconds / 1e3;
        *bytes += t.bytes as f64 * t.runs as f64;
    }
    let n = f64::from(calls);
    let mut rows: Vec<Row> = sums
        .into_iter()
        .filter(|(_, s)| s.0 > 0.0)
        .map(|(work, (runs, us, bytes))| Row { work, runs: runs / n, us: us / n, bytes: bytes / n })
        .collect();
    rows.sort_by(|a, b| b.us.total_cmp(&a.us));
    rows
}

impl Row {
    /// Nothing where the clock did not tick.
    fn gigabytes(&self) -> Option<f64> {
        (self.us > 0.0).then(|| self.bytes / self.us / 1e3)
    }
    fn of_peak(&self, model: &Model) -> Option<f64> {
        Some(self.gigabytes()? * 1e9 / model.device().info().bandwidth? as f64)
    }
    fn symbol<'a>(&self, profile: &'a Profile) -> &'a str {
        match self.work {
            Work::Kernel(k) => &profile.kernels[k].symbol,
            _ => "",
        }
    }
}

impl Report<'_> {
    fn profile(&self) -> &Profile {
        self.model.0.profile()
    }

    fn text(&self) -> String {
        let c = &self.counts;
        let counted = [
            (c.submits, "submits", "submit"),
            (c.dispatches, "dispatches", "dispatch"),
            (c.barriers, "barriers", "barrier"),
            (c.copies, "copies", "copy"),
            (c.read_backs, "read-backs", "read-back"),
        ];
        let counted: Vec<String> = counted
            .iter()
            .filter(|c| c.0 > 0)
            .map(|(n, many, one)| format!("{n} {}", if *n == 1 { one } else { many }))
            .collect();
        let mut out = format!("entry {}, {} calls, of each {}", self.id, self.n, counted.join(", "));
        out += &format!("; loaded in {}, first call {}\n", time(self.load), time(self.first));
        out += &format!("  {:<16}{:>11}{:>11}{:>11}{:>11}\n", "", "median", "min", "p99", "spread");
        for (what, t) in &self.rows {
            let cells = [t.at(0.5), t.at(0.0), t.at(0.99), t.spread()].map(|x| format!("{:>11}", time(x)));
            out += &format!("  {what:<16}{}\n", cells.concat());
        }
        match &self.kernels {
            Ok((times, n)) => out += &self.table(&by_work(times, *n)),
            Err(e) => out += &format!("no times of kernels: {e}\n"),
        }
        out
    }

    fn table(&self, rows: &[Row]) -> String {
        let sum: f64 = rows.iter().map(|r| r.us).sum();
        let mut out = format!("on the device {} a call, step by step", time(sum));
        if let Some(b) = self.model.device().info().bandwidth {
            out += &format!("; the memory moves at most {} GB/s", b / 1_000_000_000);
        }
        out +=
            &format!("\n{:>11}{:>7}{:>7}{:>11}{:>9}{:>7}  kernel\n", "time", "share", "runs", "each", "GB/s", "peak");
        for r in rows {
            let share = format!("{:.1}%", if sum > 0.0 { 100.0 * r.us / sum } else { 0.0 });
            let speed = r.gigabytes().map_or("-".into(), |g| format!("{g:.1}"));
            let peak = r.of_peak(self.model).map_or("-".into(), |p| format!("{:.0}%", 100.0 * p));
            let (runs, each) = (format!("{:.4}", r.runs), time(r.us / r.runs));
            let runs = runs.trim_end_matches('0').trim_end_matches('.');
            let (symbol, label) = (r.symbol(self.profile()), r.work.label(self.profile()));
            let name = format!("{symbol}  {label}");
            out +=
                &format!("{:>11}{share:>7}{runs:>7}{each:>11}{speed:>9}{peak:>7}  {}\n", time(r.us), name.trim_start());
        }
        out
    }

    fn json(&self) -> String {
        let c = &self.counts;
        let mut o = json!({
            "reason": "bench", "entry": self.id, "calls": self.n, "load_us": self.load, "first_call_us": self.first,
            "submits": c.submits, "dispatches": c.dispatches, "barriers": c.barriers, "copies": c.copies,
            "read_backs": c.read_backs, "allocations": c.allocations,
            "bandwidth": self.model.device().info().bandwidth,
        });
        for (what, t) in &self.rows {
            o[what.replace(' ', "_")] = t.json();
        }
        if let Err(e) = &self.kernels {
            o["no_kernel_times"] = e.to_string().into();
        }
        let mut out = format!("{o}\n");
        if let Ok((times, n)) = &self.kernels {
            for r in by_work(times, *n) {
                let o = json!({
                    "reason": "kernel", "entry": self.id, "kernel": r.symbol(self.profile()),
                    "ops": r.work.label(self.profile()), "runs": r.runs, "us": r.us, "bytes": r.bytes,
                    "gb_per_s": r.gigabytes(), "of_peak": r.of_peak(self.model),
                });
                out += &format!("{o}\n");
            }
        }
        out
    }
}

/// Three or four digits and a unit.
fn time(us: f64) -> String {
    match us {
        _ if us < 999.5 => format!("{us:.1} us"),
        _ if us < 999_500.0 => format!("{:.2} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_units() {
        let mut next = [4.0, 1.0, 3.0, 2.0, 5.0].into_iter();
        let t = Times::of(5, || Ok(next.next().unwrap_or_default())).unwrap();
        assert_eq!((t.at(0.5), t.at(0.0), t.at(0.99), t.spread()), (3.0, 1.0, 5.0, 2.0));
        assert_eq!([time(0.04), time(999.4), time(1234.0), time(2.5e6)], ["0.0 us", "999.4 us", "1.23 ms", "2.50 s"]);
    }

    #[test]
    fn steps_of_one_kernel_are_one_row() {
        let step = |work, bytes, runs, nanoseconds| StepTime { work, bytes, runs, nanoseconds };
        let k = Work::Kernel;
        let times =
            [step(k(1), 100, 10, 1e4), step(Work::Copy, 64, 0, 0.0), step(k(0), 50, 10, 9e4), step(k(1), 300, 10, 3e4)];
        let rows: Vec<_> = by_work(&times, 10).iter().map(|r| (r.work, r.runs, r.us, r.bytes)).collect();
        assert_eq!(rows, [(k(0), 1.0, 9.0, 50.0), (k(1), 2.0, 4.0, 400.0)], "what did not run is left out");
    }
}
