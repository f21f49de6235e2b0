//! Line-by-line difference between two texts, with three lines of context around each change.

use similar::{ChangeTag, TextDiff};

/// The type of a line in a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChange {
    /// In both.
    Same,
    /// The line is only in the first text.
    Removed,
    /// The line is only in the second text.
    Added,
    /// Stands for omitted lines.
    Gap,
}

impl LineChange {
    /// Returns the sign in front of the line.
    pub fn mark(self) -> char {
        match self {
            Self::Same => ' ',
            Self::Removed => '-',
            Self::Added => '+',
            Self::Gap => '⋯',
        }
    }
}

/// Returns the lines that differ, with their context; empty if both texts are the same.
pub fn difference(from: &str, to: &str) -> Vec<(LineChange, String)> {
    let diff = TextDiff::from_lines(from, to);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(3).iter().enumerate() {
        if index > 0 {
            lines.push((LineChange::Gap, String::new()));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => LineChange::Same,
                ChangeTag::Delete => LineChange::Removed,
                ChangeTag::Insert => LineChange::Added,
            };
            lines.push((sign, change.value().trim_end_matches('\n').to_owned()));
        }
    }
    lines
}
