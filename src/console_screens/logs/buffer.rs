//! The buffered lines of a log: bounded, with a count of dropped lines.
//!
//! A line has a number that never changes; views refer to numbers, not positions. Matches of the query are updated line
//! by line, never recomputed when lines arrive.

use std::collections::VecDeque;

use console_toolkit::log_line::{LineOrigin, LogLine};
use console_toolkit::search::Search;

/// Default maximum number of lines.
const CAPACITY: usize = 100_000;

/// Maximum number of bytes: lines may be long, and must fit in memory beside the cluster's objects.
const CAPACITY_BYTES: usize = 64 * 1024 * 1024;

/// The lines and the query.
#[derive(Debug)]
pub(crate) struct Buffer {
    lines: VecDeque<LogLine>,
    /// Number of the first retained line: the count of lines dropped since the last [`Buffer::clear`].
    first: u64,
    /// Number of lines dropped because of the limits.
    dropped: u64,
    capacity: usize,
    /// Size of the retained lines in bytes.
    bytes: usize,
    capacity_bytes: usize,
    /// Number of retained lines that containers wrote.
    outputs: usize,
    query: Option<Search>,
    /// Numbers of the lines that match.
    matching: VecDeque<u64>,
    /// True if only matching lines are shown.
    filtering: bool,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new(CAPACITY, CAPACITY_BYTES)
    }
}

impl Buffer {
    /// Creates an empty buffer with a maximum number of lines and of bytes.
    pub(crate) fn new(capacity: usize, capacity_bytes: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            first: 0,
            dropped: 0,
            capacity: capacity.max(1),
            bytes: 0,
            capacity_bytes,
            outputs: 0,
            query: None,
            matching: VecDeque::new(),
            filtering: false,
        }
    }

    /// Appends lines; the oldest ones are dropped if necessary.
    pub(crate) fn extend(&mut self, lines: Vec<LogLine>) {
        for line in lines {
            self.bytes += size(&line);
            self.outputs += usize::from(line.kind == LineOrigin::Output);
            while self.lines.len() >= self.capacity
                || (self.bytes > self.capacity_bytes && !self.lines.is_empty())
            {
                self.drop_oldest();
            }
            let number = self.first + self.lines.len() as u64;
            if self.matches(&line) {
                self.matching.push_back(number);
            }
            self.lines.push_back(line);
        }
    }

    fn drop_oldest(&mut self) {
        let Some(line) = self.lines.pop_front() else { return };
        self.bytes -= size(&line);
        self.outputs -= usize::from(line.kind == LineOrigin::Output);
        self.first += 1;
        self.dropped += 1;
        if self.matching.front().is_some_and(|number| *number < self.first) {
            self.matching.pop_front();
        }
    }

    /// Removes all lines; their numbers are not reused.
    pub(crate) fn clear(&mut self) {
        self.first += self.lines.len() as u64;
        self.lines.clear();
        self.matching.clear();
        self.dropped = 0;
        self.bytes = 0;
        self.outputs = 0;
    }

    /// Replaces or removes the query.
    pub(crate) fn search(&mut self, query: Option<Search>) {
        self.query = query;
        let first = self.first;
        self.matching = match &self.query {
            None => VecDeque::new(),
            Some(query) => (first..)
                .zip(&self.lines)
                .filter(|(_, line)| line.kind == LineOrigin::Output && query.matches(&line.text))
                .map(|(number, _)| number)
                .collect(),
        };
    }

    /// Switches between matching lines and all lines.
    pub(crate) fn filter(&mut self, on: bool) {
        self.filtering = on;
    }

    /// Returns whether only matching lines are shown; without a query all lines are.
    pub(crate) fn filtering(&self) -> bool {
        self.filtering && self.query.is_some()
    }

    pub(crate) fn query(&self) -> Option<&Search> {
        self.query.as_ref()
    }

    /// Returns the number of matching lines.
    pub(crate) fn match_count(&self) -> usize {
        self.matching.len()
    }

    /// Returns the number of lines dropped because of the limits, before the first retained one.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether the next batches would drop the oldest lines.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.lines.len() >= self.capacity / 10 * 9 || self.bytes >= self.capacity_bytes / 10 * 9
    }

    /// Returns whether a container wrote any of the lines.
    pub(crate) fn has_output(&self) -> bool {
        self.outputs > 0
    }

    /// Returns the number of shown lines.
    pub(crate) fn visible_count(&self) -> usize {
        if self.filtering() { self.matching.len() } else { self.lines.len() }
    }

    /// Returns the shown line at an index, with its number.
    pub(crate) fn visible_line(&self, place: usize) -> Option<(u64, &LogLine)> {
        let number = if self.filtering() { *self.matching.get(place)? } else { self.first + place as u64 };
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        Some((number, self.lines.get(index)?))
    }

    /// Returns the index, among the shown lines, of the first line with this number or a later one.
    pub(crate) fn visible_index(&self, number: u64) -> usize {
        if self.filtering() {
            return self.matching.partition_point(|found| *found < number);
        }
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.lines.len())
    }

    /// Returns the first matching line from a number on; wraps around at the end.
    pub(crate) fn next_match(&self, from: u64) -> Option<u64> {
        let place = self.matching.partition_point(|found| *found < from);
        self.matching.get(place).or_else(|| self.matching.front()).copied()
    }

    /// Returns the previous matching line before a number; wraps around at the start.
    pub(crate) fn previous_match(&self, before: u64) -> Option<u64> {
        let place = self.matching.partition_point(|found| *found < before);
        place
            .checked_sub(1)
            .and_then(|place| self.matching.get(place))
            .or_else(|| self.matching.back())
            .copied()
    }

    /// Returns the index of this line among the matches, counted from one.
    pub(crate) fn match_index(&self, number: u64) -> Option<usize> {
        self.matching.binary_search(&number).ok().map(|place| place + 1)
    }

    /// Returns all shown lines as a file, with sources and timestamps.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        if self.dropped > 0 {
            text = format!("… {} lines dropped here\n", self.dropped);
        }
        for place in 0..self.visible_count() {
            let Some((_, line)) = self.visible_line(place) else { break };
            for part in [&*line.source, &line.at] {
                if !part.is_empty() {
                    text.push_str(part);
                    text.push(' ');
                }
            }
            text.push_str(&line.text);
            text.push('\n');
        }
        text
    }

    fn matches(&self, line: &LogLine) -> bool {
        line.kind == LineOrigin::Output && self.query.as_ref().is_some_and(|query| query.matches(&line.text))
    }
}

/// Returns the approximate memory of a line in bytes.
fn size(line: &LogLine) -> usize {
    line.text.len() + line.at.len() + std::mem::size_of::<LogLine>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lines(range: std::ops::Range<u32>) -> Vec<LogLine> {
        range.map(|number| LogLine::parse(&Arc::from("p/c"), format!("line {number}").as_bytes())).collect()
    }

    fn all(buffer: &Buffer) -> Vec<String> {
        (0..buffer.visible_count()).map(|place| buffer.visible_line(place).unwrap().1.text.clone()).collect()
    }

    /// CON-10: dropped lines are counted, and retained lines keep their numbers.
    #[test]
    fn the_oldest_lines_make_room_and_are_counted() {
        let mut buffer = Buffer::new(3, usize::MAX);
        buffer.extend(lines(0..5));
        assert_eq!(all(&buffer), ["line 2", "line 3", "line 4"]);
        assert_eq!(buffer.dropped(), 2);
        assert_eq!(buffer.visible_line(0).unwrap().0, 2, "numbers stay");
        assert_eq!(buffer.visible_index(3), 1);
        assert_eq!(buffer.visible_index(0), 0, "a dropped line's view moves to the oldest");
        assert!(buffer.to_text().starts_with("… 2 lines dropped here\np/c line 2\n"));
        buffer.clear();
        assert!(buffer.len() == 0 && buffer.dropped() == 0);
        buffer.extend(lines(5..6));
        assert_eq!(buffer.visible_line(0).unwrap().0, 5);
    }

    /// CON-10: a gigabyte of long lines is not a gigabyte of memory.
    #[test]
    fn long_lines_make_room_by_their_bytes() {
        let mut buffer = Buffer::new(1_000, 40_000);
        let long = LogLine::parse(&Arc::from("p/c"), &[b'x'; 10_000]);
        for _ in 0..10 {
            buffer.extend(vec![long.clone()]);
        }
        assert_eq!((buffer.len(), buffer.dropped()), (3, 7));
        assert!(buffer.has_output());
        buffer.extend(vec![LogLine::parse(&Arc::from("p/c"), &[b'x'; 50_000])]);
        assert_eq!((buffer.len(), buffer.dropped()), (1, 10), "one line always remains");
        buffer.clear();
        assert!(!buffer.has_output());
    }

    /// The incremental matches equal a search from scratch.
    #[test]
    fn matches_stay_correct_while_lines_come_and_go() {
        let mut buffer = Buffer::new(20, usize::MAX);
        buffer.search(Search::new("1").unwrap());
        buffer.filter(true);
        buffer.extend(lines(0..35));
        let retained = all(&buffer);
        assert_eq!(retained, ["line 15", "line 16", "line 17", "line 18", "line 19", "line 21", "line 31"]);
        buffer.search(Search::new("1").unwrap());
        assert_eq!(all(&buffer), retained);
        assert_eq!(buffer.next_match(20), Some(21));
        assert_eq!(buffer.next_match(32), Some(15), "around the end");
        assert_eq!(buffer.previous_match(15), Some(31));
        assert_eq!(buffer.match_index(16), Some(2));
        buffer.filter(false);
        assert_eq!(buffer.visible_count(), 20);
        buffer.search(None);
        assert_eq!((buffer.match_count(), buffer.filtering()), (0, false));
    }
}
