//! The order of builds: changes are collected until the files are quiet, one build runs at a time, and changes during
//! a build lead to exactly one more. Does no I/O; the time is an argument.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use base::clock::saturating_after;

/// A build begins when no file has changed for this long: a save or a checkout writes several files.
const QUIET: Duration = Duration::from_millis(150);
/// A build begins this long after the first change, even if files are still changing.
const LONGEST: Duration = Duration::from_secs(2);

/// The number of builds after which files that change in each of them count as their output.
const ROUNDS: u32 = 3;

/// The pending changes of all subjects: of the manifests and of each image's sources.
#[derive(Debug)]
pub(super) struct Schedule {
    pending: Vec<Option<PendingChange>>,
    is_busy: bool,
}

#[derive(Clone, Copy, Debug)]
struct PendingChange {
    first: Timestamp,
    last: Timestamp,
}

impl PendingChange {
    fn due_at(due: Timestamp) -> Self {
        let start = due.checked_sub(QUIET).unwrap_or(due);
        Self { first: start, last: start }
    }

    fn due(&self) -> Timestamp {
        saturating_after(self.last, QUIET).min(saturating_after(self.first, LONGEST))
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Compare this subject's files, and build or apply if they differ. Until [`Schedule::finish`] nothing else begins.
    Begin(usize),
    /// Ask again at this time.
    WaitUntil(Timestamp),
    /// Nothing is pending, or something runs.
    Idle,
}

impl Schedule {
    /// Creates a schedule without changes.
    pub(super) fn new(subjects: usize) -> Self {
        Self { pending: vec![None; subjects], is_busy: false }
    }

    /// Notes that files of a subject may have changed.
    pub(super) fn note_change(&mut self, subject: usize, now: Timestamp) {
        let pending = &mut self.pending[subject];
        // A retry is later than a change.
        let first = pending.map_or(now, |pending| pending.first.min(now));
        *pending = Some(PendingChange { first, last: now });
    }

    /// Notes that a subject must begin although no file has changed; it is due at once, or with changes that are
    /// pending.
    pub(super) fn note_forced(&mut self, subject: usize, now: Timestamp) {
        if self.pending[subject].is_none_or(|pending| pending.first > now) {
            self.pending[subject] = Some(PendingChange::due_at(now));
        }
    }

    /// Notes that a subject must begin again at this time, unless it begins before.
    pub(super) fn note_retry(&mut self, subject: usize, due: Timestamp) {
        self.pending[subject].get_or_insert(PendingChange::due_at(due));
    }

    /// Returns the next step; a started subject is no longer pending. Images come before the manifests, which have the
    /// lowest number, so that one rollout brings both.
    pub(super) fn next(&mut self, now: Timestamp) -> Step {
        if self.is_busy {
            return Step::Idle;
        }
        let due = |pending: &Option<PendingChange>| pending.map(|pending| pending.due());
        let ready = self.pending.iter().rposition(|pending| due(pending).is_some_and(|due| due <= now));
        if let Some(subject) = ready {
            self.pending[subject] = None;
            self.is_busy = true;
            return Step::Begin(subject);
        }
        self.pending.iter().filter_map(due).min().map_or(Step::Idle, Step::WaitUntil)
    }

    /// Notes the end of the step that was started.
    pub(super) fn finish(&mut self) {
        self.is_busy = false;
    }
}

/// Finds files that the build itself writes among the watched ones, which would otherwise cause builds for ever.
#[derive(Debug, Default)]
pub(super) struct OutputDetector {
    files: Vec<PathBuf>,
    rounds: u32,
}

impl OutputDetector {
    /// Takes the files that changed, and whether a build ran meanwhile. Returns the files that every one of the last
    /// builds has changed, and nothing else: another build would change them again.
    pub(super) fn outputs(&mut self, changed: &[PathBuf], during_build: bool) -> Option<Vec<PathBuf>> {
        if during_build && self.files == changed {
            self.rounds += 1;
        } else {
            self.files = changed.to_vec();
            self.rounds = u32::from(during_build);
        }
        if self.rounds < ROUNDS {
            return None;
        }
        self.rounds = 0;
        Some(std::mem::take(&mut self.files))
    }
}

#[cfg(test)]
mod tests {
    use base::clock::Clock;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millis).unwrap()
    }

    #[derive(Clone, Copy, Debug)]
    enum Input {
        Change(usize),
        Forced(usize),
        Retry(usize, i64),
        Finish,
        Expect(Step),
    }

    #[test]
    fn changes_are_collected_and_builds_run_one_at_a_time_dev_2() {
        use Input::{Change, Expect, Finish, Forced, Retry};
        let wait = |millis| Expect(Step::WaitUntil(at(millis)));
        let table: [(&str, Vec<(i64, Input)>); 8] = [
            (
                "one change",
                vec![
                    (0, Change(1)),
                    (0, wait(150)),
                    (150, Expect(Step::Begin(1))),
                    (151, Expect(Step::Idle)),
                ],
            ),
            (
                "a burst is one build",
                vec![
                    (0, Change(1)),
                    (100, Change(1)),
                    (200, wait(250)),
                    (250, Expect(Step::Begin(1))),
                    (250, Finish),
                    (900, Expect(Step::Idle)),
                ],
            ),
            (
                "files that never rest are built after two seconds",
                (0..20)
                    .map(|n| (n * 100, Change(1)))
                    .chain([(1950, wait(2000)), (2000, Expect(Step::Begin(1)))])
                    .collect(),
            ),
            (
                "changes during a build lead to exactly one more",
                vec![
                    (0, Change(1)),
                    (150, Expect(Step::Begin(1))),
                    (200, Change(1)),
                    (300, Change(1)),
                    (5000, Expect(Step::Idle)),
                    (6000, Finish),
                    (6000, Expect(Step::Begin(1))),
                    (7000, Finish),
                    (9000, Expect(Step::Idle)),
                ],
            ),
            (
                "an image comes before the manifests",
                vec![
                    (0, Change(0)),
                    (10, Change(2)),
                    (400, Expect(Step::Begin(2))),
                    (500, Expect(Step::Idle)),
                    (600, Finish),
                    (600, Expect(Step::Begin(0))),
                ],
            ),
            (
                "a retry waits for its time",
                vec![(0, Retry(0, 9000)), (0, wait(9000)), (9000, Expect(Step::Begin(0)))],
            ),
            (
                "a change comes before a retry, and replaces it",
                std::iter::once((0, Retry(0, 9000)))
                    .chain((0..20).map(|n| (n * 100, Change(0))))
                    .chain([(2000, Expect(Step::Begin(0))), (2000, Finish), (9000, Expect(Step::Idle))])
                    .collect(),
            ),
            (
                "a new version comes before a retry",
                vec![
                    (0, Retry(0, 9000)),
                    (10, Forced(0)),
                    (10, Expect(Step::Begin(0))),
                    (11, Finish),
                    (9000, Expect(Step::Idle)),
                ],
            ),
        ];
        for (name, inputs) in table {
            let mut schedule = Schedule::new(3);
            for (millis, input) in inputs {
                match input {
                    Change(subject) => schedule.note_change(subject, at(millis)),
                    Forced(subject) => schedule.note_forced(subject, at(millis)),
                    Retry(subject, due) => schedule.note_retry(subject, at(due)),
                    Finish => schedule.finish(),
                    Expect(step) => assert_eq!(schedule.next(at(millis)), step, "{name}, at {millis} ms"),
                }
            }
        }
    }

    /// The times of a schedule are those of the manual clock.
    #[tokio::test(start_paused = true)]
    async fn a_schedule_follows_the_manual_clock_dev_2() {
        let clock = Clock::starting_at(at(0));
        let mut schedule = Schedule::new(1);
        schedule.note_change(0, clock.now());
        let Step::WaitUntil(due) = schedule.next(clock.now()) else { panic!("a change waits for others") };
        clock.sleep(base::clock::until(clock.now(), due)).await;
        assert_eq!(schedule.next(clock.now()), Step::Begin(0));
    }

    #[test]
    fn files_that_every_build_writes_are_found_dev_2() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let (out, main) = (paths(&["app/out"]), paths(&["app/main"]));
        let mut detector = OutputDetector::default();
        assert_eq!(detector.outputs(&main, false), None);
        assert_eq!(detector.outputs(&out, true), None);
        assert_eq!(detector.outputs(&out, true), None);
        assert_eq!(detector.outputs(&out, true), Some(out.clone()));
        // A change by the user in between begins again.
        let mut detector = OutputDetector::default();
        for changed in [&out, &out, &main, &out, &out] {
            assert_eq!(detector.outputs(changed, true), None);
        }
        assert_eq!(detector.outputs(&main, false), None);
        assert_eq!(detector.outputs(&main, false), None);
        assert_eq!(detector.outputs(&main, false), None);
    }
}
