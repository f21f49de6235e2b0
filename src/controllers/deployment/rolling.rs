//! RollingUpdate: the next sizes of the ReplicaSets, within the budget.

use base::mistakes::Mistake;

use super::view::{ReplicaSetView, Resize, View};

/// Returns the next step of a rollout with an existing new ReplicaSet; empty if there is nothing to do now.
///
/// A step changes either the new ReplicaSet or the old ones, never both, because each step is decided on the result of
/// the last one.
pub(super) fn next_step(view: &View) -> Vec<Resize> {
    let Some(new) = view.new_member() else { return Vec::new() };
    let size = new_size(view, new.size);
    if size == new.size { shrink_old(view, new) } else { vec![Resize::new(new, size)] }
}

/// Returns the next size of the new ReplicaSet, which has `size` now (0 before its creation).
pub(super) fn new_size(view: &View, size: i64) -> i64 {
    let budget = &view.budget;
    if size >= budget.replicas || Mistake::IgnoreSurge.is_enabled() {
        return budget.replicas;
    }
    if view.old_members().any(|m| !m.observed) {
        return size;
    }
    let total: i64 = view.members.iter().map(ReplicaSetView::occupied).sum();
    let capacity = (budget.max_replicas() - total).max(0);
    size + capacity.min(budget.replicas - size)
}

/// Takes pods from the old ReplicaSets, unavailable ones first.
fn shrink_old(view: &View, new: &ReplicaSetView) -> Vec<Resize> {
    let min_available = if Mistake::IgnoreUnavailable.is_enabled() { 0 } else { view.budget.min_available() };
    let total: i64 = view.members.iter().map(|m| m.size).sum();
    let new_unavailable = (new.size - new.available).max(0);
    let mut may_go = total - min_available - new_unavailable;
    if may_go <= 0 {
        return Vec::new();
    }
    let mut resizes: Vec<Resize> = view.active_old().into_iter().map(|m| Resize::new(m, m.size)).collect();
    // Unavailable pods first: they could block the rollout for ever.
    for (resize, member) in resizes.iter_mut().zip(view.active_old()) {
        let unavailable = (member.size - member.available).max(0).min(may_go);
        resize.to -= unavailable;
        may_go -= unavailable;
    }
    let available: i64 = view.members.iter().map(ReplicaSetView::available_within_size).sum();
    let mut spare = (available - min_available).max(0);
    for resize in &mut resizes {
        let going = spare.min(resize.to);
        resize.to -= going;
        spare -= going;
    }
    resizes.retain(|r| r.from != r.to);
    resizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::view::testing::{budget, member, text};

    #[test]
    fn steps_stay_within_the_budget_dep_2() {
        // (replicas, surge, unavailable), members as (name, size, available), expected
        for (rule, (replicas, surge, unavailable), members, expected) in [
            ("the first step surges", (10, 3, 2), vec![("a", 10, 10), ("new", 0, 0)], "new:0>3"),
            ("then old ones go", (10, 3, 2), vec![("a", 10, 10), ("new", 3, 0)], "a:10>8"),
            ("no surge: old ones go first", (3, 0, 1), vec![("a", 3, 3), ("new", 0, 0)], "a:3>2"),
            ("then the new one fills the gap", (3, 0, 1), vec![("a", 2, 2), ("new", 0, 0)], "new:0>1"),
            ("an unavailable new pod holds everything", (3, 1, 0), vec![("a", 3, 3), ("new", 1, 0)], ""),
            ("an available one releases an old one", (3, 1, 0), vec![("a", 3, 3), ("new", 1, 1)], "a:3>2"),
            (
                "unhealthy old pods go first",
                (10, 3, 2),
                vec![("a", 8, 4), ("b", 2, 2), ("new", 3, 3)],
                "a:8>3",
            ),
            ("they go even when none is available", (4, 1, 1), vec![("a", 4, 0), ("new", 1, 0)], "a:4>3"),
            ("oldest first", (10, 3, 2), vec![("b", 5, 5), ("a", 5, 5), ("new", 3, 0)], "a:5>3"),
            ("a new one that is too large shrinks", (3, 1, 0), vec![("a", 0, 0), ("new", 5, 5)], "new:5>3"),
            ("the last old ones go together", (3, 1, 1), vec![("a", 1, 1), ("new", 3, 3)], "a:1>0"),
            ("done", (3, 1, 1), vec![("a", 0, 0), ("new", 3, 3)], ""),
            ("zero replicas empty everything", (0, 0, 0), vec![("a", 2, 2), ("new", 0, 0)], "a:2>0"),
        ] {
            let view = View {
                budget: budget(replicas, surge, unavailable),
                members: members.into_iter().map(|(n, s, a)| member(n, s, a)).collect(),
                status_replicas: 0,
            };
            assert_eq!(text(&next_step(&view)), expected, "{rule}");
        }
    }

    #[test]
    fn pods_that_still_go_count_against_the_surge_dep_2() {
        let mut view = View {
            budget: budget(3, 1, 0),
            members: vec![member("a", 2, 3), member("new", 1, 1)],
            status_replicas: 0,
        };
        view.members[0].actual = 3;
        assert_eq!(text(&next_step(&view)), "", "the third old pod is still there");
        view.members[0].actual = 2;
        assert_eq!(text(&next_step(&view)), "new:1>2");
        view.members[0].observed = false;
        assert_eq!(text(&next_step(&view)), "", "the status tells of an older size");
    }

    #[test]
    fn a_rollout_played_to_its_end_never_leaves_its_bounds_dep_2() {
        for (replicas, surge, unavailable) in
            [(10, 3, 2), (10, 0, 1), (3, 1, 0), (1, 1, 0), (7, 7, 7), (5, 0, 5), (9, 2, 0)]
        {
            let mut view = View {
                budget: budget(replicas, surge, unavailable),
                members: vec![member("a", i64::from(replicas), i64::from(replicas)), member("new", 0, 0)],
                status_replicas: 0,
            };
            for _ in 0..100 {
                for resize in next_step(&view) {
                    let member = view.members.iter_mut().find(|m| m.name == resize.name).unwrap();
                    member.size = resize.to;
                    member.actual = resize.to;
                    member.available = member.available.min(resize.to);
                    let total: i64 = view.members.iter().map(|m| m.actual).sum();
                    assert!(total <= view.budget.max_replicas());
                }
                let available: i64 = view.members.iter().map(|m| m.available).sum();
                assert!(available >= view.budget.min_available(), "{view:?}");
                // One pod becomes available at a time.
                if let Some(member) = view.members.iter_mut().find(|m| m.available < m.size) {
                    member.available += 1;
                }
            }
            assert_eq!(view.new_member().unwrap().available, i64::from(replicas));
            assert_eq!(view.members[0].size, 0);
        }
    }
}
