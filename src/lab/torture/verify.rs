//! Checks an identity's log: no two holders at the same time (SAFE-1), and a volume retains its data.
//!
//! Times are of the clock that counts from the machine's start, because the wall clock may step. A killed holder has no
//! end record: its last record is the latest time at which it certainly ran, and a successor must start later.

use std::collections::BTreeMap;

use super::record::{Record, RecordKind};

/// The result of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogReport {
    /// Descriptions of the violations.
    pub(super) violations: Vec<String>,
    /// Number of processes that held the identity.
    pub(super) runs: usize,
    /// Number of lines read.
    pub(super) records: usize,
    /// Number of incomplete lines, left by killed holders.
    pub(super) torn: usize,
}

/// The records of one process.
#[derive(Debug)]
struct HolderRun {
    uid: String,
    pid: u32,
    started: u64,
    last_seen: u64,
    ended: bool,
}

/// Checks the log of one identity.
pub(super) fn verify(text: &str) -> LogReport {
    let mut verdict = LogReport::default();
    let mut runs: BTreeMap<u64, HolderRun> = BTreeMap::new();
    let mut earlier_starts = None;
    let mut torn_before = false;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let number = number + 1;
        let Ok(record) = serde_json::from_str::<Record>(line) else {
            torn_before = true;
            verdict.torn += 1;
            continue;
        };
        verdict.records += 1;
        // Only a killed holder leaves an incomplete line, so the next line must be another process's first one.
        if std::mem::take(&mut torn_before) && !matches!(record.what, RecordKind::Begin | RecordKind::Clash) {
            verdict.violations.push(format!("line {number}: follows a line that cannot be read"));
        }
        match record.what {
            RecordKind::Begin => {
                if let (Some(before), Some(now)) = (earlier_starts, record.earlier_starts)
                    && now <= before
                {
                    verdict.violations.push(format!(
                        "line {number}: the volume of pod {} lost data: it has {now} recorded starts, after {before}",
                        record.uid
                    ));
                }
                earlier_starts = record.earlier_starts.or(earlier_starts);
                runs.insert(record.run, HolderRun::new(&record));
            }
            RecordKind::Alive | RecordKind::End => {
                if let Some(problem) = note(&mut runs, &record) {
                    verdict.violations.push(format!("line {number}: {problem}"));
                }
            }
            RecordKind::Clash => verdict.violations.push(format!(
                "line {number}, at {}: pod {} found the identity held by {}",
                seconds(record.at),
                record.uid,
                record.other.as_deref().unwrap_or("another process")
            )),
        }
    }
    verdict.runs = runs.len();
    verdict.violations.extend(overlaps(runs.into_values().collect()));
    verdict
}

impl HolderRun {
    fn new(record: &Record) -> Self {
        Self {
            uid: record.uid.clone(),
            pid: record.pid,
            started: record.at,
            last_seen: record.at,
            ended: false,
        }
    }
}

fn note(runs: &mut BTreeMap<u64, HolderRun>, record: &Record) -> Option<String> {
    let Some(run) = runs.get_mut(&record.run) else {
        return Some(format!("pod {} reports without having started", record.uid));
    };
    let problem = if run.ended {
        Some(format!("pod {} reports after its end", record.uid))
    } else if record.at < run.last_seen {
        Some(format!("the clock of pod {} went back", record.uid))
    } else {
        None
    };
    run.last_seen = run.last_seen.max(record.at);
    run.ended |= record.what == RecordKind::End;
    problem
}

/// Finds processes that started before the last record of a process that had started earlier.
fn overlaps(mut runs: Vec<HolderRun>) -> Vec<String> {
    runs.sort_by_key(|run| run.started);
    let mut found = Vec::new();
    let mut latest: Option<HolderRun> = None;
    for run in runs {
        if let Some(before) = &latest
            && run.started <= before.last_seen
        {
            found.push(format!(
                "two at once: pod {} (pid {}) from {} to {}, and pod {} (pid {}) from {}",
                before.uid,
                before.pid,
                seconds(before.started),
                seconds(before.last_seen),
                run.uid,
                run.pid,
                seconds(run.started)
            ));
        }
        if latest.as_ref().is_none_or(|before| run.last_seen > before.last_seen) {
            latest = Some(run);
        }
    }
    found
}

/// Formats seconds since the machine's start.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:06} s", nanoseconds / 1_000_000_000, nanoseconds / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats a line with run, time and event; the wall clock is the table's value.
    fn line(run: u64, at: u64, wall: i64, event: &str) -> String {
        let more = if event == "clash" { r#","other":"pod b""# } else { "" };
        format!(r#"{{"run":{run},"at":{at},"wall":{wall},"pid":7,"uid":"pod-{run}","what":"{event}"{more}}}"#)
            + "\n"
    }

    fn log(lines: &[(u64, u64, &str)]) -> String {
        lines.iter().map(|&(run, at, what)| line(run, at, 0, what)).collect()
    }

    #[test]
    fn one_after_the_other_is_right_safe_1() {
        for lines in [
            &[][..],
            &[(1, 10, "begin")],
            &[(1, 10, "begin"), (1, 20, "end")],
            &[(1, 10, "begin"), (1, 20, "alive"), (1, 30, "end"), (2, 31, "begin")],
            // Killed: no end record.
            &[(1, 10, "begin"), (1, 20, "alive"), (2, 21, "begin"), (2, 22, "alive")],
        ] {
            let verdict = verify(&log(lines));
            assert_eq!((verdict.violations, verdict.torn), (vec![], 0), "{lines:?}");
        }
    }

    #[test]
    fn two_at_once_are_found_safe_1() {
        for (lines, words) in [
            // The first continues after the second has started.
            (&[(1, 10, "begin"), (2, 15, "begin"), (1, 20, "alive")][..], "two at once: pod pod-1"),
            (&[(1, 10, "begin"), (1, 20, "end"), (2, 15, "begin")], "two at once: pod pod-1"),
            // Not only neighbours: the second is within the first, and so is the third.
            (
                &[(1, 10, "begin"), (2, 11, "begin"), (2, 12, "end"), (3, 20, "begin"), (1, 30, "alive")],
                "and pod pod-3",
            ),
            (&[(1, 10, "begin"), (2, 15, "clash")], "held by pod b"),
            (&[(1, 10, "begin"), (1, 12, "end"), (1, 13, "alive")], "after its end"),
            (&[(1, 10, "alive")], "without having started"),
            (&[(1, 10, "begin"), (1, 9, "alive")], "went back"),
        ] {
            let found = verify(&log(lines)).violations;
            assert!(found.iter().any(|one| one.contains(words)), "{lines:?}: {found:?}");
        }
    }

    #[test]
    fn a_line_that_a_kill_cut_off_is_no_violation_safe_1() {
        let whole = log(&[(1, 10, "begin"), (1, 20, "alive")]);
        for cut in 1..whole.len() {
            let verdict = verify(&whole[..cut]);
            assert_eq!(verdict.violations, Vec::<String>::new(), "{cut}");
            let next = verify(&format!("{}\n{}", &whole[..cut], log(&[(2, 30, "begin"), (2, 31, "alive")])));
            assert_eq!(next.violations, Vec::<String>::new(), "{cut}");
        }
        // A process that has written half a line writes nothing further.
        let (first, second) = (line(1, 10, 0, "begin"), line(1, 20, 0, "alive"));
        let verdict = verify(&format!("{first}{{\"run\":1,\n{second}"));
        assert_eq!((verdict.violations.len(), verdict.torn), (1, 1));
    }

    #[test]
    fn a_step_of_the_wall_clock_says_nothing_safe_1() {
        let text = [line(1, 10, 9000, "begin"), line(1, 20, 1000, "end"), line(2, 30, 500, "begin")].concat();
        assert_eq!(verify(&text).violations, Vec::<String>::new());
        let text =
            [line(1, 10, 1000, "begin"), line(2, 15, 9000, "begin"), line(1, 20, 1010, "end")].concat();
        assert_eq!(verify(&text).violations.len(), 1);
    }

    #[test]
    fn a_volume_that_forgets_is_found_vol_2() {
        let begin = |run: u64, earlier_starts: usize| {
            line(run, run * 10, 0, "begin")
                .replace("\"begin\"", &format!("\"begin\",\"kept\":{earlier_starts}"))
        };
        assert_eq!(
            verify(&[begin(1, 0), begin(2, 1), begin(3, 5)].concat()).violations,
            Vec::<String>::new()
        );
        assert_eq!(verify(&[begin(1, 0), begin(2, 1), begin(3, 1)].concat()).violations.len(), 1);
        assert_eq!(verify(&[begin(1, 3), begin(2, 0)].concat()).violations.len(), 1);
    }
}
