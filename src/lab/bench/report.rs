//! The printed table: figure, reference, and, if the reference was measured in the same run, the factor between them.

use std::time::Duration;

use podium::cli::output::print_line;

/// Source of the recorded figures.
const RECORDED: &str = "Kubernetes 1.20 with etcd, 2 cores, 2026";

/// Prints one row per figure.
pub(super) struct Report;

impl Report {
    pub(super) fn heading() {
        print_line(&format!("recorded = {RECORDED}; measured on another machine, so there is no verdict"));
        print_line(&format!("{:<46} {:>14} {:>28}   podium is", "measurement", "podium", "compared with"));
    }

    /// Prints a figure beside a limit, or beside a reference that was measured in the same run.
    pub(super) fn against_limit(label: &str, unit: &str, value: f64, limit_name: &str, limit: f64) {
        Self::row(label, unit, value, &format!("{limit_name} {}", number(limit)), limit);
    }

    /// Prints a figure beside a recorded figure of another machine ([`RECORDED`]).
    pub(super) fn beside_recorded(label: &str, unit: &str, value: f64, peer: f64) {
        let (value, peer) = (format!("{} {unit}", number(value)), format!("recorded {}", number(peer)));
        print_line(&format!("{label:<46} {value:>14} {peer:>28}"));
    }

    /// Prints a figure without a reference.
    pub(super) fn alone(label: &str, unit: &str, value: f64) {
        print_line(&format!("{label:<46} {:>14}", format!("{} {unit}", number(value))));
    }

    fn row(label: &str, unit: &str, value: f64, beside: &str, other: f64) {
        let verdict = compare(unit, value, other);
        print_line(&format!(
            "{label:<46} {:>14} {beside:>28}   {verdict}",
            format!("{} {unit}", number(value))
        ));
    }
}

/// Compares `value` with `other`: more is better for rates, less for all other units.
fn compare(unit: &str, value: f64, other: f64) -> String {
    let better = if unit.ends_with("/s") { value / other } else { other / value };
    if better >= 1.0 {
        format!("{}x better", number(better))
    } else {
        format!("{}x worse", number(1.0 / better))
    }
}

/// Formats three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_which_way_is_better_perf_1() {
        for (unit, value, other, verdict) in [
            ("s", 0.5, 5.0, "10.0x better"),
            ("s", 5.0, 0.5, "10.0x worse"),
            ("/s", 3000.0, 1000.0, "3.00x better"),
            ("/s", 1000.0, 3000.0, "3.00x worse"),
            ("MiB", 7.0, 7.0, "1.00x better"),
        ] {
            assert_eq!(compare(unit, value, other), verdict, "{value} {unit} beside {other}");
        }
    }

    #[test]
    fn percentiles_are_of_the_sorted_samples() {
        let mut samples: Vec<Duration> = (0..=100).rev().map(Duration::from_micros).collect();
        assert!((percentile_micros(&mut samples, 0.5) - 50.0).abs() < 0.01);
        assert!((percentile_micros(&mut samples, 0.99) - 99.0).abs() < 0.01);
        assert!(percentile_micros(&mut [], 0.5).abs() < 0.01);
    }
}
