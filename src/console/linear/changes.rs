//! Detects new lines of a page. A line in which only times or amounts changed is not new, nor is the title or the foot
//! of a part in which only counts changed.

use similar::{ChangeTag, TextDiff};

use super::page::PageLine;
use console_toolkit::text::without_amounts;

/// Returns a line without parts that change by themselves.
pub(super) fn timeless(line: &str) -> String {
    let line = without_amounts(line);
    // The distance between columns depends on their content.
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text by which a line of a page is compared.
fn key(line: &PageLine) -> String {
    let text = timeless(&line.news);
    if !line.is_edge {
        return text;
    }
    let words = text.split_whitespace().filter(|word| !is_count(word) && !is_query(word));
    // `1 pod` and `2 pods` differ only in their count.
    words.map(|word| word.strip_suffix('s').unwrap_or(word)).collect::<Vec<_>>().join(" ")
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
pub(super) fn new_lines<'a>(before: &[PageLine], now: &'a [PageLine]) -> Vec<&'a PageLine> {
    let (old, new): (Vec<String>, Vec<String>) =
        (before.iter().map(key).collect(), now.iter().map(key).collect());
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
    let diff = TextDiff::from_slices(&old, &new);
    let inserted = diff.iter_all_changes().filter(|change| change.tag() == ChangeTag::Insert);
    let inserted = inserted.filter_map(|change| now.get(change.new_index()?));
    inserted.filter(|line| !line.news.trim().is_empty()).collect()
}

/// Returns the lines of the next page of a text, also those that happen to be the same as some on the previous page.
/// The title and the foot, and the last lines of the previous page above the new ones, are not repeated. After a smaller
/// change, returns the new lines.
pub(super) fn next_page<'a>(before: &[PageLine], now: &'a [PageLine]) -> Vec<&'a PageLine> {
    let new = new_lines(before, now);
    if new.len() * 2 <= now.len() {
        return new;
    }
    let (old_keys, new_keys): (Vec<String>, Vec<String>) =
        (before.iter().map(key).collect(), now.iter().map(key).collect());
    let start = old_keys.iter().zip(&new_keys).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old_keys[start..], &new_keys[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let overlap =
        (1..=old.len().min(new.len())).rev().find(|count| old[old.len() - count..] == new[..*count]);
    let lines = &now[start + overlap.unwrap_or(0)..start + new.len()];
    lines.iter().filter(|line| !line.news.trim().is_empty()).collect()
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
            (&["a", "178 lines · following"], &["b", "179 lines · following"], &["b"]),
            (&["178 lines · following"], &["179 lines · held, 3 below"], &["179 lines · held, 3 below"]),
        ] {
            assert_eq!(text(&new_lines(&page(before), &page(now))), new, "{before:?} then {now:?}");
        }
    }

    #[test]
    fn the_next_page_is_read_with_its_lines_that_the_previous_one_had_as_well_con_20() {
        for (before, now, new) in [
            (
                &["Part: web", "Limits:", "a"][..],
                &["Part: web", "b", "Limits:", "c", "d"][..],
                &["b", "Limits:", "c", "d"][..],
            ),
            (&["Part: web", "a", "2 lines"], &["Part: web", "b", "c", "2 lines"], &["b", "c"]),
            (&["a", "b", "c"], &["b", "c", "d"], &["d"]),
            (&["Part: web", "a", "b", "c", "3 lines"], &["Part: web", "c", "d", "e", "3 lines"], &["d", "e"]),
            (&["a"], &["a"], &[]),
            (&[], &["a"], &["a"]),
        ] {
            assert_eq!(text(&next_page(&page(before), &page(now))), new, "{before:?} then {now:?}");
        }
    }

    fn page(lines: &[&str]) -> Vec<PageLine> {
        let is_edge = |line: &str| line.starts_with("Part: ") || line.contains(" lines");
        let line = |line: &&str| PageLine { is_edge: is_edge(line), ..PageLine::of((*line).to_owned()) };
        lines.iter().map(line).collect()
    }

    fn text<'a>(lines: &[&'a PageLine]) -> Vec<&'a str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }
}
