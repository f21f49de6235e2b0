//! Recreate: creates no new pod before every old one is gone.

use super::view::{Resize, View};

/// The next action of a Deployment that recreates its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Scale these old ReplicaSets to 0.
    ScaleDown(Vec<Resize>),
    /// Wait for old pods that are still there, even if they are terminating.
    Wait,
    /// Scale the new ReplicaSet to the full size, creating it if it is missing.
    ScaleUp,
}

/// Returns the next action; `old_pods_running` if any old pod has not ended.
pub(super) fn next_step(view: &View, old_pods_running: bool) -> Action {
    let down: Vec<Resize> = view.active_old().into_iter().map(|old| Resize::new(old, 0)).collect();
    if !down.is_empty() {
        Action::ScaleDown(down)
    } else if old_pods_running || view.old_members().any(|old| old.actual > 0 || !old.observed) {
        Action::Wait
    } else {
        Action::ScaleUp
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::view::testing::{budget, member, text};
    use crate::deployment::view::{Budget, ReplicaSetView, Strategy};

    fn view(members: Vec<ReplicaSetView>) -> View {
        let budget = Budget { strategy: Strategy::Recreate, ..budget(3, 0, 0) };
        View { budget, members, status_replicas: 3 }
    }

    #[test]
    fn every_old_pod_is_gone_before_a_new_one_comes_dep_2() {
        match next_step(&view(vec![member("a", 3, 3), member("b", 1, 0)]), true) {
            Action::ScaleDown(resizes) => assert_eq!(text(&resizes), "a:3>0 b:1>0"),
            other => panic!("{other:?}"),
        }
        let leaving = ReplicaSetView { actual: 2, ..member("a", 0, 0) };
        assert_eq!(next_step(&view(vec![leaving]), false), Action::Wait, "the status still counts pods");
        assert_eq!(next_step(&view(vec![member("a", 0, 0)]), true), Action::Wait, "a terminating pod");
        assert_eq!(next_step(&view(vec![member("a", 0, 0), member("new", 0, 0)]), false), Action::ScaleUp);
    }
}
