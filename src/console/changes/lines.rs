//! How two texts differ, line by line, with three lines around each change.

use similar::{ChangeTag, TextDiff};

/// How a line of a difference is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// In both.
    Same,
    /// Only in the first.
    Removed,
    /// Only in the second.
    Added,
    /// Lines in between are left out.
    Gap,
}

impl Sign {
    /// How a line is marked.
    pub(crate) fn mark(self) -> char {
        match self {
            Self::Same => ' ',
            Self::Removed => '-',
            Self::Added => '+',
            Self::Gap => '⋯',
        }
    }
}

/// The lines that differ, each with those around it; nothing where both are the same.
pub(crate) fn difference(from: &str, to: &str) -> Vec<(Sign, String)> {
    let diff = TextDiff::from_lines(from, to);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(3).iter().enumerate() {
        if index > 0 {
            lines.push((Sign::Gap, String::new()));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => Sign::Same,
                ChangeTag::Delete => Sign::Removed,
                ChangeTag::Insert => Sign::Added,
            };
            lines.push((sign, change.value().trim_end_matches('\n').to_owned()));
        }
    }
    lines
}
