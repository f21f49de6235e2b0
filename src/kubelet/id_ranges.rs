//! The ids of the machine that pods with user namespaces of their own have (`hostUsers: false`): ranges of 65,536 ids,
//! each for one pod of the machine at a time (POD-18).
//!
//! A pod's sandbox records its range, so that the pod keeps it over restarts. Ranges that the machine has promised to
//! ordinary users (`/etc/subuid`, `/etc/subgid`) are left out, and those that pods of other clusters use. A node's host
//! refuses a range that another cluster has taken meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::Mutex;

use super::runtime::{IdRange, PodUid};
use base::optional_file::read_optional;
use base::sort::SliceOrder;

/// The files with ranges of ordinary users: `NAME:FIRST:COUNT` in each line.
const OF_USERS: [&str; 2] = ["/etc/subuid", "/etc/subgid"];
/// The first id that belongs to no pod: programs take larger ones for negative numbers.
const END: u32 = 1 << 31;

/// The ranges of all pods of this process's nodes.
#[derive(Debug, Default)]
pub(super) struct IdRanges(Mutex<Ranges>);

#[derive(Debug, Default)]
struct Ranges {
    of_pods: BTreeMap<PodUid, IdRange>,
    /// The ranges of all nodes' sandboxes are known.
    complete: bool,
}

impl IdRanges {
    /// Learns the ranges of all nodes' sandboxes from their journals below `nodes`, once: also those of nodes that do not
    /// run, or not yet.
    pub(super) fn learn(&self, nodes: &Path) {
        let mut ranges = self.0.lock();
        if !std::mem::replace(&mut ranges.complete, true) {
            ranges.of_pods.extend(host::id_ranges_of_pods(nodes));
        }
    }

    /// Allocates a range for a pod, or returns the one that it has; none if all are taken.
    pub(super) fn take(&self, pod: &str) -> Option<IdRange> {
        let of_users: Vec<String> = OF_USERS.iter().map(read_optional).collect();
        self.0.lock().take(pod, &of_users, host::is_id_range_free)
    }

    /// Remembers the range of a pod that has a sandbox.
    pub(super) fn reserve(&self, pod: &str, range: IdRange) {
        self.0.lock().of_pods.insert(pod.to_owned(), range);
    }

    /// Releases the range of a pod whose files are removed.
    pub(super) fn release(&self, pod: &str) {
        self.0.lock().of_pods.remove(pod);
    }
}

impl Ranges {
    fn take(&mut self, pod: &str, of_users: &[String], is_free: impl Fn(IdRange) -> bool) -> Option<IdRange> {
        if let Some(range) = self.of_pods.get(pod) {
            return Some(*range);
        }
        let mut taken: Vec<(u32, u32)> =
            self.of_pods.values().map(|range| (range.first, IdRange::COUNT)).collect();
        taken.extend(of_users.iter().flat_map(|text| text.lines()).filter_map(range_of_user));
        taken.order();
        let mut taken = taken.into_iter().peekable();
        let mut first = IdRange::COUNT;
        while first.checked_add(IdRange::COUNT).is_some_and(|end| end <= END) {
            let overlapping = taken.next_if(|(start, _)| start.saturating_sub(first) < IdRange::COUNT);
            if let Some((start, count)) = overlapping {
                let end = start.saturating_add(count);
                if end > first {
                    first = end.checked_next_multiple_of(IdRange::COUNT)?;
                }
            } else if is_free(IdRange { first }) {
                return Some(*self.of_pods.entry(pod.to_owned()).or_insert(IdRange { first }));
            } else {
                first += IdRange::COUNT;
            }
        }
        None
    }
}

/// The first id and the number of ids in a line of [`OF_USERS`].
fn range_of_user(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':').skip(1);
    let mut number = || fields.next()?.trim().parse::<u32>().ok();
    Some((number()?, number()?)).filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u32 = IdRange::COUNT;

    /// POD-18: each pod has ids of its own and keeps them until it is released.
    #[test]
    fn each_pod_has_ids_of_its_own_pod_18() {
        let ranges = IdRanges::default();
        let take = |pod: &str| ranges.0.lock().take(pod, &[], |_| true).map(|range| range.first);
        assert_eq!((take("a"), take("b"), take("a")), (Some(COUNT), Some(2 * COUNT), Some(COUNT)));
        ranges.reserve("d", IdRange { first: 3 * COUNT });
        assert_eq!(take("e"), Some(4 * COUNT), "a range that was found is not given away");
        ranges.release("b");
        assert_eq!((take("f"), take("g")), (Some(2 * COUNT), Some(5 * COUNT)));
    }

    /// POD-18: the ids of ordinary users stay theirs, however their files look.
    #[test]
    fn ids_of_ordinary_users_are_left_out_pod_18() {
        let of = |text: &str| {
            let mut ranges = Ranges::default();
            ["a", "b"]
                .map(|pod| ranges.take(pod, &[text.to_owned()], |_| true).map(|range| range.first / COUNT))
        };
        assert_eq!(of(""), [Some(1), Some(2)]);
        assert_eq!(of("me:100000:65536\n"), [Some(3), Some(4)]);
        assert_eq!(of("me:131072:65536\nyou:65536:1\n"), [Some(3), Some(4)]);
        assert_eq!(of("me:131072:65536\n"), [Some(1), Some(3)]);
        assert_eq!(of("me:1:1\nbad\nx:y:z\n:::\nme:131073:0\n"), [Some(1), Some(2)]);
        assert_eq!(of("me:0:4294967295\n"), [None, None]);
        assert_eq!(of("me:1:4294967295\nyou:4294967295:4294967295"), [None, None]);
    }

    /// POD-18: the ranges of other clusters are left out, between those of this one, too.
    #[test]
    fn ids_of_other_clusters_are_left_out_pod_18() {
        let mut ranges = Ranges::default();
        ranges.of_pods.insert("own".to_owned(), IdRange { first: 3 * COUNT });
        let is_free = |range: IdRange| ![1, 2, 5].contains(&(range.first / COUNT));
        let mut take = |pod: &str| ranges.take(pod, &[], is_free).map(|range| range.first / COUNT);
        assert_eq!((take("a"), take("b"), take("a")), (Some(4), Some(6), Some(4)));
        assert_eq!(Ranges::default().take("a", &[], |_| false), None);
    }

    /// POD-18: there is an end, and a released range is given again.
    #[test]
    fn all_ranges_may_be_taken_pod_18() {
        let mut ranges = Ranges::default();
        let all = (1..END / COUNT).map(|number| (number.to_string(), IdRange { first: number * COUNT }));
        ranges.of_pods.extend(all);
        assert_eq!(ranges.take("more", &[], |_| true), None);
        ranges.of_pods.remove("77");
        assert_eq!(ranges.take("more", &[], |_| true), Some(IdRange { first: 77 * COUNT }));
    }
}
