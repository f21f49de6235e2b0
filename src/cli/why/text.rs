//! Formats a report as lines for a terminal.

use why::{Report, State};

/// Returns one line per finding, with its details below, and the verdict as the last line.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines = vec![format!("{} → {}", report.source, report.destination)];
    for finding in &report.findings {
        let mark = match finding.state {
            State::Fine => '✓',
            State::Problem => '✗',
            State::Note => '·',
        };
        lines.push(format!("  {mark} {:<10}  {}", finding.step, finding.text));
        lines.extend(finding.details.iter().map(|detail| format!("                {detail}")));
    }
    lines.push(report.last_line());
    lines
}
