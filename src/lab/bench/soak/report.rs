//! Decides whether the measured resources stayed flat.

use std::fmt;
use std::time::Duration;

use super::measure::Sample;

/// Maximum growth after settling, as a fraction of the baseline.
pub(super) const FLAT_WITHIN: f64 = 0.2;

/// One column of the samples.
struct Column {
    name: &'static str,
    value: fn(&Sample) -> f64,
    /// Growth that is always allowed: a few more connections, the garbage of one burst, a journal.
    slack: f64,
    statistic: Statistic,
}

/// Selects the statistic of the later samples that is compared with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    /// The maximum, for a resource that does not depend on the current pods.
    Most,
    /// The median, for a resource that varies with the current pods or with journals.
    Middle,
}

/// The resources that must stay flat.
const COLUMNS: [Column; 5] = [
    Column {
        name: "memory of the control plane",
        value: |s| s.serve_mib,
        slack: 4.0,
        statistic: Statistic::Most,
    },
    Column { name: "memory of the hosts", value: |s| s.hosts_mib, slack: 4.0, statistic: Statistic::Middle },
    Column {
        name: "descriptors",
        value: |s| s.descriptors as f64,
        slack: 16.0,
        statistic: Statistic::Middle,
    },
    Column { name: "threads", value: |s| s.threads as f64, slack: 4.0, statistic: Statistic::Middle },
    Column { name: "disk", value: |s| s.disk_mib, slack: 64.0, statistic: Statistic::Middle },
];

/// One line per column: its value after settling, and its later value.
pub(super) struct SoakReport {
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    baseline: f64,
    later: f64,
    statistic: Statistic,
    flat: bool,
}

impl SoakReport {
    /// Compares the later samples with the first one that is at least `settling` old.
    pub(super) fn of(samples: &[Sample], settling: Duration) -> Self {
        let later = samples.iter().position(|s| s.after >= settling).map_or(&[][..], |at| &samples[at..]);
        let line = |column: &Column| {
            let baseline = later.first().map_or(0.0, column.value);
            let mut values: Vec<f64> = later.iter().map(column.value).collect();
            values.sort_by(f64::total_cmp);
            let later = match column.statistic {
                Statistic::Most => values.last(),
                Statistic::Middle => values.get(values.len() / 2),
            };
            let later = later.copied().unwrap_or(baseline);
            let flat = later <= baseline * (1.0 + FLAT_WITHIN) || later <= baseline + column.slack;
            Line { name: column.name, baseline, later, statistic: column.statistic, flat }
        };
        Self { lines: COLUMNS.iter().map(line).collect() }
    }

    /// Returns true if no resource has grown.
    pub(super) fn is_flat(&self) -> bool {
        self.lines.iter().all(|line| line.flat)
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Line { name, baseline: settled, later, statistic: judged, flat }) in
            self.lines.iter().enumerate()
        {
            let verdict = if *flat { "flat" } else { "GREW" };
            let end = if number == 0 { "" } else { "\n" };
            let of = if *judged == Statistic::Most { "maximum" } else { "median" };
            write!(f, "{end}{verdict}  {name}: {settled:.1} when settled, {of} {later:.1} since")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(serve: &[f64]) -> Vec<Sample> {
        let sample = |(minute, serve_mib): (usize, &f64)| Sample {
            after: Duration::from_mins(minute as u64),
            serve_mib: *serve_mib,
            hosts_mib: 10.0,
            descriptors: 100,
            threads: 20,
            disk_mib: 1.0,
            pods: 5,
            revision: 7,
        };
        serve.iter().enumerate().map(sample).collect()
    }

    /// Growth from 44 MiB to 906 is reported; memory that fills in the first minutes is not.
    #[test]
    fn growth_after_settling_is_reported() {
        for (serve, flat) in [
            (&[44.0, 80.0, 100.0, 110.0, 119.0][..], true),
            (&[44.0, 80.0, 100.0, 110.0, 121.0], false),
            (&[44.0, 200.0, 100.0, 90.0, 119.0], true),
            (&[44.0, 200.0, 400.0, 700.0, 906.0], false),
            (&[5.0, 5.0, 5.0, 8.0], true),
            (&[], true),
        ] {
            let verdict = SoakReport::of(&samples(serve), Duration::from_mins(2));
            assert_eq!(verdict.is_flat(), flat, "{serve:?}: {verdict}");
        }
        let verdict = SoakReport::of(&samples(&[44.0, 400.0]), Duration::ZERO).to_string();
        assert!(
            verdict.starts_with("GREW  memory of the control plane: 44.0 when settled, maximum 400.0 since")
        );
        assert!(verdict.contains("\nflat  threads: 20.0"), "{verdict}");
    }
}
