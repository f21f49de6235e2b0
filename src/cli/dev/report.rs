//! The messages of a run: printed line by line, or shown in the console.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cli::output::{print_line, print_with_origin};
use base::clock::Clock;
use console_data::project::Project;
use console_toolkit::log_line::LogLine;
use console_toolkit::toast::Toast;

/// The origin of the run's own messages.
const OWN: &str = "podium";
/// The colours of origins: those of a terminal that are readable on light and dark.
const COLOURS: [u8; 5] = [6, 2, 3, 5, 4];
/// The colour of failures.
const RED: u8 = 1;

/// Shows the messages of a run.
#[derive(Clone)]
pub(super) struct Report(Arc<Inner>);

struct Inner {
    output: ReportOutput,
    /// The failures that last, by their subject.
    failures: Mutex<BTreeMap<String, String>>,
}

/// The place of the messages.
enum ReportOutput {
    /// Standard output.
    Lines { is_coloured: bool },
    /// A console, and later standard output.
    Console { project: Arc<Project>, clock: Clock },
    #[cfg(test)]
    Silence,
}

impl Report {
    /// Prints lines on standard output.
    pub(super) fn lines() -> Self {
        let is_coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self::new(ReportOutput::Lines { is_coloured })
    }

    /// Shows messages in a console.
    pub(super) fn console(project: Arc<Project>, clock: Clock) -> Self {
        Self::new(ReportOutput::Console { project, clock })
    }

    #[cfg(test)]
    pub(super) fn silent() -> Self {
        Self::new(ReportOutput::Silence)
    }

    fn new(output: ReportOutput) -> Self {
        Self(Arc::new(Inner { output, failures: Mutex::default() }))
    }

    /// A line that a build of an image printed.
    pub(super) fn build_line(&self, image: &str, text: &str) {
        self.line(&format!("{image}/build"), text);
    }

    /// A line of a container's log.
    pub(super) fn log_line(&self, line: &LogLine) {
        self.line(&line.source, &line.text);
    }

    /// A message about the run.
    pub(super) fn note(&self, text: &str) {
        self.line(OWN, text);
    }

    /// A success that a user waits for.
    pub(super) fn done(&self, text: &str) {
        self.line(OWN, text);
        if let ReportOutput::Console { project, .. } = &self.0.output {
            project.notify(Toast::done(text));
        }
    }

    /// A failure, which lasts until [`Report::clear`].
    pub(super) fn failed(&self, subject: &str, text: &str, last_lines: &[String]) {
        self.0.failures.lock().insert(subject.to_owned(), text.to_owned());
        match &self.0.output {
            ReportOutput::Lines { is_coloured } => {
                for line in last_lines {
                    print_with_origin("  |", None, line);
                }
                for line in format!("ERROR: {text}").lines() {
                    print_with_origin(OWN, is_coloured.then_some(RED), line);
                }
            }
            ReportOutput::Console { project, clock } => {
                for line in text.lines() {
                    project.write_error(OWN, line, clock.now());
                }
                project.notify(Toast::failed(text));
                self.show_failure(project);
            }
            #[cfg(test)]
            ReportOutput::Silence => {}
        }
    }

    /// Ends the failure of a subject; returns false if there was none.
    pub(super) fn clear(&self, subject: &str) -> bool {
        let was_there = self.0.failures.lock().remove(subject).is_some();
        if let ReportOutput::Console { project, .. } = &self.0.output
            && was_there
        {
            self.show_failure(project);
        }
        was_there
    }

    fn show_failure(&self, project: &Project) {
        let failures = self.0.failures.lock();
        project.set_failure(failures.values().next().cloned());
    }

    fn line(&self, origin: &str, text: &str) {
        match &self.0.output {
            ReportOutput::Lines { is_coloured } => {
                let colour = is_coloured.then(|| colour_of(origin));
                for line in text.lines() {
                    print_with_origin(origin, colour, line);
                }
                if text.is_empty() {
                    print_line(origin);
                }
            }
            ReportOutput::Console { project, clock } => {
                for line in text.lines() {
                    project.write(origin, line, clock.now());
                }
            }
            #[cfg(test)]
            ReportOutput::Silence => {}
        }
    }
}

/// A colour for an origin, the same at every line.
fn colour_of(origin: &str) -> u8 {
    let sum = origin.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    COLOURS[sum % COLOURS.len()]
}

/// The text of a line that a program wrote, without sequences that control terminals.
pub(super) fn plain_text(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let text = text.trim_end_matches('\r');
    // A progress bar rewrites its line; a terminal would show the last version.
    let shown = text.rsplit('\r').find(|part| !part.is_empty()).unwrap_or(text);
    LogLine::note(&Arc::from(""), shown).text
}
