//! Sets of a Job's completion indexes as its status writes them: `0-2,5`.

use std::fmt;

/// A set of indexes, stored as ordered ranges: a Job may have a hundred thousand.
///
/// Invariant: the ranges are in order, do not touch, and none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionIndexes {
    ranges: Vec<(i32, i32)>,
}

impl CompletionIndexes {
    /// Reads the indexes in a Job's status; ignores parts that are invalid and indexes that are not below
    /// `completions`.
    pub fn read(text: &str, completions: i32) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
                indexes.add_range(first.max(0), last.min(completions.saturating_sub(1)));
            }
        }
        indexes
    }

    /// Adds one index.
    pub fn add(&mut self, index: i32) {
        self.add_range(index, index);
    }

    /// Adds all of another set.
    pub fn add_all(&mut self, other: &Self) {
        for (first, last) in &other.ranges {
            self.add_range(*first, *last);
        }
    }

    fn add_range(&mut self, mut first: i32, mut last: i32) {
        if first > last {
            return;
        }
        // Every range that overlaps or touches the new one becomes part of it.
        let from = self.ranges.partition_point(|(_, end)| i64::from(*end) + 1 < i64::from(first));
        let to = self.ranges.partition_point(|(start, _)| i64::from(*start) <= i64::from(last) + 1);
        if let [(start, _), ..] = self.ranges[from..to.max(from)] {
            first = first.min(start);
        }
        if let [.., (_, end)] = self.ranges[from..to.max(from)] {
            last = last.max(end);
        }
        self.ranges.splice(from..to.max(from), [(first, last)]);
    }

    /// Returns true if the set has the index.
    pub fn contains(&self, index: i32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < index);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Returns the number of indexes.
    pub fn len(&self) -> i32 {
        total(self.ranges.iter().copied())
    }

    /// Returns true if the set has no index.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of indexes in both sets.
    pub fn shared_with(&self, other: &Self) -> i32 {
        total(self.overlaps(other))
    }

    /// Returns the first index in both sets.
    pub fn first_shared_with(&self, other: &Self) -> Option<i32> {
        self.overlaps(other).next().map(|(first, _)| first)
    }

    fn overlaps<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (i32, i32)> + 'a {
        self.ranges.iter().flat_map(move |(first, last)| {
            let from = other.ranges.partition_point(|(_, end)| end < first);
            let near = other.ranges[from..].iter().take_while(move |(start, _)| start <= last);
            near.map(move |(start, end)| (*first.max(start), *last.min(end)))
        })
    }

    /// Returns the first `count` indexes below `completions` that are not in the set.
    pub fn missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in &self.ranges {
            missing.extend((next..(*first).min(completions)).take(count - missing.len()));
            next = last.saturating_add(1);
        }
        missing.extend((next..completions).take(count - missing.len()));
        missing
    }

    /// Reads a set strictly.
    ///
    /// # Errors Returns the first violation in Kubernetes' words: an index that is not below `completions`, or ranges
    /// that are not in ascending order.
    pub fn parse(text: &str, completions: i32) -> Result<Self, String> {
        let mut indexes = Self::default();
        let mut previous: Option<i32> = None;
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = parse_range(part, completions)?;
            if let Some(previous) = previous.filter(|p| *p >= first) {
                return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
            }
            indexes.add_range(first, last);
            previous = Some(last);
        }
        Ok(indexes)
    }
}

/// Returns the number of indexes in these ranges; it may exceed 32 bits by one.
fn total(ranges: impl Iterator<Item = (i32, i32)>) -> i32 {
    let total: i64 = ranges.map(|(first, last)| i64::from(last) - i64::from(first) + 1).sum();
    i32::try_from(total).unwrap_or(i32::MAX)
}

fn parse_range(part: &str, completions: i32) -> Result<(i32, i32), String> {
    let limits: Vec<&str> = part.split('-').collect();
    if limits.len() > 2 {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= i64::from(completions) => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(i32::try_from(index).unwrap_or(i32::MIN)),
    };
    let first = index(limits[0])?;
    let Some(last) = limits.get(1) else { return Ok((first, first)) };
    let last = index(last)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

impl FromIterator<i32> for CompletionIndexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        let mut set = Self::default();
        for index in indexes {
            set.add(index);
        }
        set
    }
}

impl fmt::Display for CompletionIndexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.ranges.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indexes_are_written_as_in_a_status_job_1() {
        for (indexes, expected) in [
            (&[][..], ""),
            (&[3], "3"),
            (&[0, 1], "0,1"),
            (&[2, 0, 1], "0-2"),
            (&[5, 0, 1, 2], "0-2,5"),
            (&[9, 7, 8, 1, 3, 4], "1,3,4,7-9"),
        ] {
            let set: CompletionIndexes = indexes.iter().copied().collect();
            assert_eq!(set.to_string(), expected);
            assert_eq!(CompletionIndexes::read(expected, 10), set, "{expected}");
            assert_eq!(CompletionIndexes::parse(expected, 10).unwrap(), set, "{expected}");
        }
        assert_eq!(
            CompletionIndexes::read("0-4,x,7-12", 9).to_string(),
            "0-4,7,8",
            "indexes beyond the number of completions are dropped"
        );
        assert_eq!(CompletionIndexes::read("0-2,5", 10).missing(4, 8), [3, 4, 6, 7]);
        assert_eq!(CompletionIndexes::default().missing(2, 8), [0, 1]);
    }

    #[test]
    fn a_set_of_indexes_has_a_syntax_job_1() {
        for (text, expected) in [
            ("0-2,5", "ok"),
            ("", "ok"),
            ("invalid-format", "cannot convert string to integer for index: \"invalid\""),
            ("0-x", "cannot convert string to integer for index: \"x\""),
            ("10", "too large index: \"10\""),
            ("4-12", "too large index: \"12\""),
            ("3,2", "non-increasing order, previous: 3, current: 2"),
            ("3-2", "non-increasing order, previous: 3, current: 2"),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ] {
            let result = CompletionIndexes::parse(text, 10).map_or_else(|wrong| wrong, |_| "ok".into());
            assert_eq!(result, expected, "{text}");
        }
    }

    #[test]
    fn indexes_up_to_the_largest_are_counted_without_overflow_job_1() {
        let all = CompletionIndexes::read(&format!("0-{}", i32::MAX), i32::MAX);
        assert_eq!((all.len(), all.shared_with(&all)), (i32::MAX, i32::MAX));
        let mut whole = all.clone();
        whole.add(i32::MAX);
        assert_eq!(whole.len(), i32::MAX, "one more than 32 bits hold");
        assert_eq!(CompletionIndexes::read("0-3", i32::MIN).len(), 0);
        assert_eq!(CompletionIndexes::default().missing(2, i32::MAX), [0, 1]);
    }

    proptest! {
        /// JOB-1: ranges behave as the set of their indexes.
        #[test]
        fn ranges_are_a_set(one in prop::collection::btree_set(0..40i32, 0..30), other in prop::collection::btree_set(0..40i32, 0..30), count in 0..40usize) {
            let (a, b): (CompletionIndexes, CompletionIndexes) =
                (one.iter().rev().copied().collect(), other.iter().copied().collect());
            prop_assert_eq!(a.len() as usize, one.len());
            prop_assert_eq!(a.shared_with(&b) as usize, one.intersection(&other).count());
            prop_assert_eq!(a.first_shared_with(&b), one.intersection(&other).next().copied());
            for index in 0..40 {
                prop_assert_eq!(a.contains(index), one.contains(&index));
            }
            let missing: Vec<i32> = (0..40).filter(|i| !one.contains(i)).take(count).collect();
            prop_assert_eq!(a.missing(count, 40), missing);
            let mut both = a.clone();
            both.add_all(&b);
            let expected: CompletionIndexes = one.union(&other).copied().collect();
            prop_assert_eq!(&both, &expected);
            prop_assert_eq!(CompletionIndexes::read(&both.to_string(), 40), both);
        }
    }
}
