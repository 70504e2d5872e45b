//! `--timings`: what the start took, part by part.

use super::say;
use crate::spans::{FIRST_CALL, Span};
use serde_json::json;

/// What a model of any size takes time for; it is stated apart.
const WEIGHTS: &str = "upload weights";

/// Spans from the first on, in the order in which they began. Parts may lie beside each other, so they do not add up.
pub fn report(json: bool, spans: &[Span]) {
    let mut spans = spans.to_vec();
    spans.sort_by_key(|s| s.begin);
    let Some(first) = spans.first().map(|s| s.begin) else { return };
    let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
    let find = |what| spans.iter().find(|s| s.what == what);
    let start = find(FIRST_CALL).map(|s| ms(s.begin - first));
    let weights = find(WEIGHTS).map_or(0.0, |s| ms(s.took));
    if json {
        for s in &spans {
            let (at, took) = (ms(s.begin - first), ms(s.took));
            say(&format!("{}\n", json!({"reason": "timing", "part": s.what, "at_ms": at, "ms": took})));
        }
        say(&format!("{}\n", json!({"reason": "start", "ms": start, "weights_ms": weights})));
        return;
    }
    eprintln!("{:>10} {:>10}", "at", "took");
    for s in &spans {
        eprintln!("{:>7.1} ms {:>7.1} ms  {}", ms(s.begin - first), ms(s.took), s.what);
    }
    if let Some(start) = start {
        eprintln!("{start:.1} ms from opening the artifact to the first dispatch, {weights:.1} ms of it with weights");
    }
}
