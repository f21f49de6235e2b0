//! Detects new lines of a page. A line in which only times or amounts changed is not new, nor is the title of a part in
//! which only counts changed.

use similar::{ChangeTag, TextDiff};

use super::page::PART;
use console_toolkit::text::without_amounts;

/// Returns a line without parts that change by themselves.
pub(super) fn timeless(line: &str) -> String {
    let line = without_amounts(line);
    // The distance between columns depends on their content.
    let words = line.split_whitespace();
    if line.starts_with(PART) {
        // `1 pod` and `2 pods` differ only in their count.
        let words = words.filter(|word| !is_count(word) && !is_query(word));
        return words.map(|word| word.strip_suffix('s').unwrap_or(word)).collect::<Vec<_>>().join(" ");
    }
    words.collect::<Vec<_>>().join(" ")
}

/// Reports whether a word is a count or a range of them: `12`, `3/5`, `1–20`.
fn is_count(word: &str) -> bool {
    word.contains(|letter: char| letter.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_digit() || "/–.,".contains(letter))
}

/// Reports whether a word of a title is the filter or the search, which is read while the user types it.
fn is_query(word: &str) -> bool {
    word.starts_with('/')
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
            (&["12 pods"], &["13 pods"], &["13 pods"]),
            (&["Part: Pods 1 200"], &["Part: Pods 9"], &[]),
            (&["Part: Topology 1 node in 1 zone"], &["Part: Topology 2 nodes in 1 zone"], &[]),
            (&["Part: web 1–20 of 90"], &["Part: web 21–40 of 91"], &[]),
            (&["Part: Kinds 9 /a"], &["Part: Kinds 3 /ab"], &[]),
            (&["Part: web-1 Running"], &["Part: web-1 Failed"], &["Part: web-1 Failed"]),
            (&["Part: web-1 Running"], &["Part: web-2 Running"], &["Part: web-2 Running"]),
            (&["a"], &["a", "Part: Command"], &["Part: Command"]),
        ] {
            assert_eq!(new_lines(before, now), new, "{before:?} then {now:?}");
        }
    }
}
