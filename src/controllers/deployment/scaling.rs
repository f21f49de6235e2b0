//! Scales a Deployment: a single active ReplicaSet gets the full size; during a rollout the change is spread over the
//! active ones in proportion to their sizes.

use super::view::{ReplicaSetView, Resize, Strategy, View};
use base::sort::SliceOrder;

/// Returns true if the Deployment's size has changed since its ReplicaSets were sized.
pub(super) fn is_scaling_event(view: &View) -> bool {
    view.active().iter().any(|m| m.desired_annotation.is_some_and(|d| d != view.budget.replicas))
}

/// Returns the sizes that follow from the Deployment's size.
pub(super) fn next_step(view: &View) -> Vec<Resize> {
    let mut resizes = sizes(view);
    let before: i64 = resizes.iter().map(|r| r.from).sum();
    let after: i64 = resizes.iter().map(|r| r.to).sum();
    if after > before && view.may_have_surplus_pods() {
        resizes.clear();
    }
    resizes
}

fn sizes(view: &View) -> Vec<Resize> {
    let replicas = view.budget.replicas;
    if let Some(only) = active_or_latest(view) {
        return vec![Resize::new(only, replicas)];
    }
    if view.new_member().is_some_and(|new| is_saturated(new, replicas)) {
        return view.active_old().into_iter().map(|old| Resize::new(old, 0)).collect();
    }
    match view.budget.strategy {
        Strategy::RollingUpdate => proportional(view),
        Strategy::Recreate => Vec::new(),
    }
}

/// Returns the only ReplicaSet with a size; if none has one, the new one or else the youngest.
fn active_or_latest(view: &View) -> Option<&ReplicaSetView> {
    match view.active()[..] {
        [only] => Some(only),
        [] => view
            .new_member()
            .or_else(|| view.members.iter().max_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)))),
        _ => None,
    }
}

/// Returns true if the new ReplicaSet alone provides all the Deployment's pods.
fn is_saturated(new: &ReplicaSetView, replicas: i64) -> bool {
    new.size == replicas && new.desired_annotation == Some(replicas) && new.available == replicas
}

fn proportional(view: &View) -> Vec<Resize> {
    let budget = &view.budget;
    let mut active = view.active();
    let total: i64 = active.iter().map(|m| m.size).sum();
    let allowed = if budget.replicas > 0 { budget.max_replicas() } else { 0 };
    let to_add = allowed - total;
    // Larger ones first; among equals younger ones grow first and older ones shrink first.
    active.order_by(|a, b| {
        let by_age = (a.created, &a.name).cmp(&(b.created, &b.name));
        b.size.cmp(&a.size).then(if to_add > 0 { by_age.reverse() } else { by_age })
    });
    let mut added = 0;
    let mut resizes = Vec::new();
    for member in &active {
        let share = share(view, member, to_add, added);
        added += share;
        resizes.push(Resize::new(member, member.size + share));
    }
    if let Some(largest) = resizes.first_mut() {
        largest.to = (largest.to + to_add - added).max(0);
    }
    keep_available(&mut resizes, &active, budget.min_available());
    resizes
}

/// If the split would remove more available pods than allowed, takes unavailable ones of other ReplicaSets instead.
/// (In Kubernetes rounding can violate the limit here.)
fn keep_available(resizes: &mut [Resize], members: &[&ReplicaSetView], min_available: i64) {
    let before: i64 = members.iter().map(|m| m.available_within_size()).sum();
    let after: i64 = resizes.iter().zip(members).map(|(r, m)| m.available.min(r.to)).sum();
    let mut missing = min_available.min(before) - after;
    for (resize, member) in resizes.iter_mut().zip(members) {
        let back = missing.min(member.available_within_size() - resize.to).max(0);
        resize.to += back;
        missing -= back;
    }
    let mut over = min_available.min(before) - after - missing;
    for (resize, member) in resizes.iter_mut().zip(members).rev() {
        let unavailable = over.min(resize.to - member.available).max(0);
        resize.to -= unavailable;
        over -= unavailable;
    }
}

/// Returns a ReplicaSet's share of `to_add` pods, `added` of which are distributed already.
fn share(view: &View, member: &ReplicaSetView, to_add: i64, added: i64) -> i64 {
    let left = to_add - added;
    if left == 0 {
        return 0;
    }
    if view.budget.replicas == 0 {
        return (-member.size).max(left);
    }
    let max_before = member.max_annotation.filter(|max| *max > 0).unwrap_or(view.status_replicas);
    if max_before <= 0 {
        return 0;
    }
    let scaled = i128::from(member.size) * i128::from(view.budget.max_replicas());
    // Half a pod rounds away from zero; sizes are never negative.
    let rounded = (2 * scaled + i128::from(max_before)).div_euclid(2 * i128::from(max_before));
    let share = i64::try_from(rounded).unwrap_or(i64::from(i32::MAX)) - member.size;
    // Clamp the share, because annotations may have any value: when growing it is never negative, when shrinking
    // never positive.
    if to_add > 0 { share.clamp(0, left.max(0)) } else { share.clamp(left.min(0), 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::view::testing::{budget, member, text};

    fn view(bounds: (i32, i32, i32), sized_for: i32, members: &[(&str, i64, i64)]) -> View {
        let max_before = budget(sized_for, bounds.1, bounds.2).max_replicas();
        let members = members
            .iter()
            .map(|(name, size, available)| ReplicaSetView {
                desired_annotation: Some(i64::from(sized_for)),
                max_annotation: Some(max_before),
                ..member(name, *size, *available)
            })
            .collect();
        View { budget: budget(bounds.0, bounds.1, bounds.2), members, status_replicas: max_before }
    }

    #[test]
    fn a_change_of_size_is_spread_in_proportion_dep_3() {
        for (rule, bounds, sized_for, members, expected) in [
            // The example of the Deployment page: 8 + 5 of 13 become 11 + 7 of 18.
            (
                "10 to 15 in a stuck rollout",
                (15, 3, 2),
                10,
                vec![("a", 8, 8), ("new", 5, 0)],
                "a:8>11 new:5>7",
            ),
            ("10 to 5", (5, 3, 2), 10, vec![("a", 8, 8), ("new", 5, 0)], "a:8>5 new:5>3"),
            ("to nothing", (0, 3, 2), 10, vec![("a", 8, 8), ("new", 5, 0)], "a:8>0 new:5>0"),
            (
                "equal sizes: the younger grows",
                (5, 0, 1),
                4,
                vec![("a", 2, 2), ("new", 2, 0)],
                "new:2>3 a:2>2",
            ),
            (
                "equal sizes: the older shrinks",
                (3, 0, 1),
                4,
                vec![("a", 2, 2), ("new", 2, 2)],
                "a:2>1 new:2>2",
            ),
            ("one alone takes all", (7, 1, 0), 3, vec![("a", 0, 0), ("new", 3, 3)], "new:3>7"),
            ("none active: the new one", (2, 1, 0), 0, vec![("a", 0, 0), ("new", 0, 0)], "new:0>2"),
            ("none active, none new: the youngest", (2, 1, 0), 0, vec![("a", 0, 0), ("b", 0, 0)], "b:0>2"),
            ("a saturated new one empties the old", (3, 1, 0), 3, vec![("a", 1, 1), ("new", 3, 3)], "a:1>0"),
        ] {
            assert_eq!(text(&next_step(&view(bounds, sized_for, &members))), expected, "{rule}");
        }
    }

    #[test]
    fn rounding_never_takes_the_last_available_pods_dep_2() {
        let stuck = view((2, 1, 0), 4, &[("a", 3, 3), ("b", 1, 0), ("new", 1, 0)]);
        // Kubernetes' arithmetic alone would leave a:1, one available pod of two.
        assert_eq!(text(&next_step(&stuck)), "a:3>2 b:1>1 new:1>0");
    }

    #[test]
    fn only_sizes_from_before_are_a_scaling_event_dep_3() {
        let stale = view((15, 3, 2), 10, &[("a", 8, 8), ("new", 5, 0)]);
        assert!(is_scaling_event(&stale));
        assert!(!is_scaling_event(&view((10, 3, 2), 10, &[("a", 8, 8), ("new", 5, 0)])));
    }

    #[test]
    fn nothing_grows_while_pods_are_still_going_dep_2() {
        let mut shrinking = view((15, 3, 2), 10, &[("a", 8, 8), ("new", 5, 0)]);
        shrinking.members[0].actual = 10;
        assert_eq!(text(&next_step(&shrinking)), "");
    }

    #[test]
    fn a_recreating_deployment_does_not_spread_dep_3() {
        let mut recreate = view((15, 0, 0), 10, &[("a", 8, 8), ("new", 5, 0)]);
        recreate.budget.strategy = Strategy::Recreate;
        assert!(next_step(&recreate).is_empty());
    }
}
