//! Detects new lines of a page. A line in which only times or amounts changed is not new.

use similar::{ChangeTag, TextDiff};

use crate::text::without_amounts;

/// Returns a line without parts that change by themselves.
pub(super) fn timeless(line: &str) -> String {
    let line = without_amounts(line);
    // The distance between columns depends on their content.
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the lines that were not present before, in order.
pub(super) fn new_lines<'a>(before: &[&str], now: &[&'a str]) -> Vec<&'a str> {
    let plain = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| timeless(line)).collect() };
    let (old, new) = (plain(before), plain(now));
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
    let diff = TextDiff::from_slices(&old, &new);
    let inserted = diff.iter_all_changes().filter(|change| change.tag() == ChangeTag::Insert);
    let inserted = inserted.filter_map(|change| now.get(change.new_index()?));
    inserted.copied().filter(|line| !line.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_new_unless_only_time_went_on_con_20() {
        for (before, now, new) in [
            (&["a", "b"][..], &["a", "b", "c"][..], &["c"][..]),
            (&["web-1  Running  5s"], &["web-1  Running  6s"], &[]),
            (&["web-1  Running  59s"], &["web-1  Running  2m13s"], &[]),
            (&["web-1  Running  5s"], &["web-1  Failed  6s"], &["web-1  Failed  6s"]),
            (&["again in 8s, 3 left"], &["again in 7s, 2 left"], &["again in 7s, 2 left"]),
            (&["cpu 250m 12Mi 40%"], &["cpu 300m 13.5Mi 41%"], &[]),
            (&["again in 4 s, ctrl-r now"], &["again in 3 s, ctrl-r now"], &[]),
            (&["12:03:05 began"], &["12:03:06 began"], &[]),
            (&["a", "b", "c"], &["b", "c"], &[]),
            (&["a"], &["a", "  "], &[]),
            (&["b"], &["a", "b"], &["a"]),
        ] {
            assert_eq!(new_lines(before, now), new, "{before:?} then {now:?}");
        }
    }
}
