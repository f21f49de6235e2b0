//! Recreate: no new pod before every old one is gone.

use super::fleet::{Fleet, Resize};

/// What a Deployment that recreates its pods does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These old ReplicaSets get the size 0.
    ScaleDown(Vec<Resize>),
    /// Old pods are still there, be it terminating.
    Wait,
    /// The new ReplicaSet takes the whole size, made first when it is not there.
    ScaleUp,
}

/// The next step; `old_pods_running` counts every old pod that has not ended.
pub(super) fn next_step(fleet: &Fleet, old_pods_running: bool) -> Step {
    let down: Vec<Resize> = fleet.active_old().into_iter().map(|old| Resize::new(old, 0)).collect();
    if !down.is_empty() {
        Step::ScaleDown(down)
    } else if old_pods_running || fleet.old_members().any(|old| old.actual > 0 || !old.observed) {
        Step::Wait
    } else {
        Step::ScaleUp
    }
}

#[cfg(test)]
mod tests {
    use super::super::fleet::testing::{budget, member, told};
    use super::super::fleet::{Budget, Member, Strategy};
    use super::*;

    fn fleet(members: Vec<Member>) -> Fleet {
        let budget = Budget { strategy: Strategy::Recreate, ..budget(3, 0, 0) };
        Fleet { budget, members, status_replicas: 3 }
    }

    #[test]
    fn every_old_pod_is_gone_before_a_new_one_comes_dep_2() {
        match next_step(&fleet(vec![member("a", 3, 3), member("b", 1, 0)]), true) {
            Step::ScaleDown(resizes) => assert_eq!(told(&resizes), "a:3>0 b:1>0"),
            other => panic!("{other:?}"),
        }
        let leaving = Member { actual: 2, ..member("a", 0, 0) };
        assert_eq!(next_step(&fleet(vec![leaving]), false), Step::Wait, "the status still counts pods");
        assert_eq!(next_step(&fleet(vec![member("a", 0, 0)]), true), Step::Wait, "a terminating pod");
        assert_eq!(next_step(&fleet(vec![member("a", 0, 0), member("new", 0, 0)]), false), Step::ScaleUp);
    }
}
