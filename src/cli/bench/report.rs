//! The printed table: figure, limit or peer, ratio.

use std::time::Duration;

/// Prints one row a figure.
pub(super) struct Report;

impl Report {
    pub(super) fn heading() {
        println!("{:<46} {:>14} {:>26} {:>9}", "what", "podium", "beside", "ratio");
    }

    /// Beside something measured in the same run.
    pub(super) fn against_limit(what: &str, unit: &str, value: f64, limit_name: &str, limit: f64) {
        Self::row(what, unit, value, &format!("{limit_name} {}", number(limit)), value / limit);
    }

    /// Beside a peer's figure from elsewhere.
    pub(super) fn against_peer(what: &str, unit: &str, value: f64, peer: f64) {
        Self::row(what, unit, value, &format!("k8s 1.20: {}", number(peer)), value / peer);
    }

    /// Alone.
    pub(super) fn alone(what: &str, unit: &str, value: f64) {
        println!("{what:<46} {:>14}", format!("{} {unit}", number(value)));
    }

    fn row(what: &str, unit: &str, value: f64, beside: &str, ratio: f64) {
        println!("{what:<46} {:>14} {beside:>26} {:>8}x", format!("{} {unit}", number(value)), number(ratio));
    }
}

/// Three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// The value that this share of the samples does not exceed, in microseconds.
pub(super) fn percentile_micros(samples: &mut [Duration], share: f64) -> f64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    let index = ((last as f64) * share).round() as usize;
    samples.get(index).map_or(0.0, |d| d.as_secs_f64() * 1e6)
}
