//! The ranges of subordinate ids in `/etc/subuid` and `/etc/subgid`, and the map of a user namespace made of them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file that is read; a larger one counts to this size.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The maximum of lines in a map; the kernel takes 340.
const MAX_RANGES: usize = 300;
/// The largest id; the next number means no id to the kernel.
const MAX_ID: u64 = u32::MAX as u64 - 1;

/// A range of ids of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdRange {
    start: u32,
    count: u32,
}

impl IdRange {
    /// A range without id 0, which is root's, and without numbers that are no ids; `None` if nothing remains.
    fn checked(start: u64, count: u64) -> Option<Self> {
        let end = start.checked_add(count)?.min(MAX_ID + 1);
        let start = start.max(1);
        Self::between(start, end)
    }

    fn between(start: u64, end: u64) -> Option<Self> {
        let count = end.checked_sub(start).filter(|count| *count > 0)?;
        Some(Self { start: u32::try_from(start).ok()?, count: u32::try_from(count).ok()? })
    }

    fn end(self) -> u64 {
        u64::from(self.start) + u64::from(self.count)
    }

    /// The parts of this range outside of another.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self::between(u64::from(self.start), self.end().min(u64::from(other.start)));
        let after = Self::between(u64::from(self.start).max(other.end()), self.end());
        before.into_iter().chain(after)
    }
}

/// The text of a file of the machine; empty if it cannot be read.
pub(super) fn read_bounded(path: &Path) -> String {
    let mut bytes = Vec::new();
    // The part that was read before an error counts.
    let _ = File::open(path).map(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The names of a user in a password file.
pub(super) fn names_of(uid: u32, passwd: &str) -> Vec<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    passwd.lines().filter_map(name).collect()
}

/// The ranges that a file gives a user, by name or number, in the file's order. Lines with errors count for nothing.
pub(super) fn of_user(text: &str, uid: u32, names: &[String]) -> Vec<IdRange> {
    let range = |line: &str| {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let [user, start, count] = fields[..] else { return None };
        let is_own = names.iter().any(|name| name == user) || user.parse() == Ok(uid);
        IdRange::checked(start.parse().ok()?, count.parse().ok()?).filter(|_| is_own)
    };
    text.lines().filter_map(range).collect()
}

/// The ids of a user namespace: 0 is the user's own, the others are subordinate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdMap {
    own: u32,
    /// Without overlaps.
    subordinate: Vec<IdRange>,
}

impl IdMap {
    /// The map of a user's own id and ranges; an id counts once.
    pub(super) fn new(own: u32, ranges: &[IdRange]) -> Self {
        let mut taken: Vec<IdRange> = IdRange::between(own.into(), u64::from(own) + 1).into_iter().collect();
        for range in ranges {
            let mut parts = vec![*range];
            for other in &taken {
                parts = parts.into_iter().flat_map(|part| part.without(*other)).collect();
            }
            taken.extend(parts);
            if taken.len() > MAX_RANGES {
                break;
            }
        }
        let mut left = MAX_ID;
        let fits = |range: IdRange| {
            let count = u64::from(range.count).min(left);
            left -= count;
            IdRange::between(range.start.into(), u64::from(range.start) + count)
        };
        let subordinate = taken.into_iter().skip(1).take(MAX_RANGES).filter_map(fits).collect();
        Self { own, subordinate }
    }

    pub(super) fn subordinate_count(&self) -> u64 {
        self.subordinate.iter().map(|range| u64::from(range.count)).sum()
    }

    /// The numbers of the map: for each range the first id inside, the first one outside, and their count.
    pub(super) fn numbers(&self) -> Vec<[u32; 3]> {
        let mut numbers = vec![[0, self.own, 1]];
        let mut inside = 1;
        for range in &self.subordinate {
            numbers.push([inside, range.start, range.count]);
            inside += range.count;
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-12: names, numbers, several ranges, and other lines that a file may contain.
    #[test]
    fn ranges_are_read_by_name_and_number_img_12() {
        let names = ["ann".to_owned()];
        let text = "ann:100000:65536\nbob:200000:65536\n1000:300000:10\nann:x:1\nann:1\nann:1:2:3\n\n\
            ann:-5:10\nann:5:-1\nann:400000:0\nann:0:5\nann:4294967290:100\nann:99999999999999999999:1\n\
            ann:18446744073709551615:5\n:500000:9\nannabel:600000:9\n";
        let found: Vec<_> =
            of_user(text, 1000, &names).into_iter().map(|range| (range.start, range.count)).collect();
        assert_eq!(found, [(100_000, 65_536), (300_000, 10), (1, 4), (4_294_967_290, 5)]);
        assert_eq!(
            names_of(1000, "root:x:0:0::/:\nann:x:1000:1::\n:x:1000:\nann2:x:1000\nbad\n"),
            ["ann", "ann2"]
        );
    }

    /// IMG-12: the kernel refuses a map in which an id of the machine occurs twice.
    #[test]
    fn no_id_is_mapped_twice_img_12() {
        let map = |ranges: &[(u64, u64)]| {
            let ranges: Vec<_> =
                ranges.iter().filter_map(|(start, count)| IdRange::checked(*start, *count)).collect();
            IdMap::new(1000, &ranges).numbers()
        };
        assert_eq!(map(&[]), [[0, 1000, 1]]);
        assert_eq!(map(&[(5000, 10), (5000, 10)]), [[0, 1000, 1], [1, 5000, 10]]);
        assert_eq!(map(&[(998, 5)]), [[0, 1000, 1], [1, 998, 2], [3, 1001, 2]]);
        assert_eq!(
            map(&[(5000, 10), (4990, 100)]),
            [[0, 1000, 1], [1, 5000, 10], [11, 4990, 10], [21, 5010, 80]]
        );
        let whole = IdMap::new(1000, &[IdRange::checked(0, u64::MAX).unwrap()]);
        assert_eq!(whole.subordinate_count(), MAX_ID - 1, "all but root, the user and what is no id");
        let many: Vec<_> = (0..1000).filter_map(|n| IdRange::checked(10_000 + 2 * n, 1)).collect();
        assert_eq!(IdMap::new(1000, &many).numbers().len(), MAX_RANGES + 1);
    }
}
