//! What to do next for one StatefulSet: from what it asks for and its pods as they are, the steps in order.
//!
//! Pure; never looks at the API. In order (`OrderedReady`) one thing happens at a time and waits for all
//! before it; in parallel everything that is due happens at once.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::object::owner::is_terminating;
use crate::object::percent::{Rounding, scaled};
use crate::object::readiness::{Availability, availability, is_terminal, phase};

/// What a StatefulSet asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// The ordinals its pods have.
    pub(super) ordinals: Range<i32>,
    pub(super) policy: Policy,
    pub(super) update: Update,
}

/// `spec.podManagementPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    OrderedReady,
    Parallel,
}

/// `spec.updateStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// Whoever deletes a pod gets a new one.
    OnDelete,
    /// From the highest ordinal down to the partition.
    Rolling { partition: i32, max_unavailable: usize },
}

impl Ask {
    pub(super) fn of(set: &StatefulSet) -> Self {
        let spec = &set.spec;
        let replicas = spec.replicas.unwrap_or(1);
        let start = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0);
        let policy = match spec.pod_management_policy.as_deref() {
            Some("Parallel") => Policy::Parallel,
            _ => Policy::OrderedReady,
        };
        let strategy = spec.update_strategy.as_ref();
        let update = if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
            Update::OnDelete
        } else {
            let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
            let one = IntOrString::Int(1);
            let most = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&one);
            // Validation refused what is no percentage. A small percentage of few pods is still one pod:
            // nothing would ever move otherwise.
            let most = scaled(most, replicas, Rounding::Down).unwrap_or(1).max(1);
            Update::Rolling {
                partition: rolling.and_then(|r| r.partition).unwrap_or(0),
                max_unavailable: usize::try_from(most).unwrap_or(1),
            }
        };
        Self { ordinals: start..start.saturating_add(replicas.max(0)), policy, update }
    }

    /// Whether the pod made for this ordinal is of the newest template: below the partition the old one
    /// comes back.
    pub(super) fn is_updated_at(&self, ordinal: i32) -> bool {
        match self.update {
            Update::OnDelete => true,
            Update::Rolling { partition, .. } => ordinal >= self.ordinals.start.saturating_add(partition),
        }
    }
}

/// How far a pod is, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Asked to go, and not gone.
    Terminating,
    /// It succeeded or failed: pods of StatefulSets run for ever.
    Ended,
    /// Not running and ready, and whether it has been started at all.
    Unready { pending: bool },
    /// Running and ready, but not for `minReadySeconds`.
    Ready,
    /// It counts.
    Available,
}

impl State {
    pub(super) fn of(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Self {
        if is_terminating(&pod.metadata) {
            return Self::Terminating;
        }
        if is_terminal(pod) {
            return Self::Ended;
        }
        match (phase(pod), availability(pod, min_ready_seconds, now)) {
            ("Running", Availability::Available) => Self::Available,
            ("Running", Availability::In(_)) => Self::Ready,
            (phase, _) => Self::Unready { pending: phase == "Pending" },
        }
    }
}

/// A pod as the decision sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) state: State,
    /// It is of the newest template.
    pub(super) updated: bool,
    /// Its identity, its volumes and its claims are as they should be.
    pub(super) sound: bool,
}

impl Member {
    fn is_available(self) -> bool {
        self.state == State::Available
    }

    fn is_outdated(self) -> bool {
        !self.updated && self.state != State::Terminating
    }
}

/// One thing to do, to the pod with this ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make it, with its claims.
    Create(i32),
    /// Ask it to go.
    Delete(i32),
    /// Put right its identity, volumes and claims.
    Mend(i32),
}

/// The steps to take now, in this order; nothing when there is something to wait for, or nothing to do.
pub(super) fn next_steps(ask: &Ask, members: &BTreeMap<i32, Member>) -> Vec<Step> {
    let mut steps = Vec::new();
    let waiting = fill(ask, members, &mut steps);
    if waiting {
        return steps;
    }
    let waiting = shrink(ask, members, &mut steps);
    if !waiting {
        steps.extend(update(ask, members).into_iter().map(Step::Delete));
    }
    steps
}

/// Every ordinal gets its pod; true when that must be waited for.
fn fill(ask: &Ask, members: &BTreeMap<i32, Member>, steps: &mut Vec<Step>) -> bool {
    let in_order = ask.policy == Policy::OrderedReady;
    for ordinal in ask.ordinals.clone() {
        let Some(member) = members.get(&ordinal) else {
            steps.push(Step::Create(ordinal));
            if in_order {
                return true;
            }
            continue;
        };
        match member.state {
            State::Ended => steps.push(Step::Delete(ordinal)),
            State::Terminating => {}
            // A pod may be pending because its claims are missing.
            state if !member.sound => {
                let now = !in_order || matches!(state, State::Available | State::Unready { pending: true });
                steps.extend(now.then_some(Step::Mend(ordinal)));
            }
            _ => {}
        }
        if in_order && !member.is_available() {
            return true;
        }
    }
    false
}

/// Pods beyond the ordinals go, the highest first; true when that must be waited for.
fn shrink(ask: &Ask, members: &BTreeMap<i32, Member>, steps: &mut Vec<Step>) -> bool {
    let condemned = || members.iter().filter(|(ordinal, _)| !ask.ordinals.contains(ordinal));
    // Claims that go with their pods must say so before the pods go.
    steps.extend(condemned().filter(|(_, m)| !m.sound).map(|(ordinal, _)| Step::Mend(*ordinal)));
    if ask.policy == Policy::Parallel {
        let present = condemned().rev().filter(|(_, m)| m.state != State::Terminating);
        steps.extend(present.map(|(ordinal, _)| Step::Delete(*ordinal)));
        return false;
    }
    let Some((highest, member)) = condemned().next_back() else { return false };
    // A pod that is not available goes only when none below it is in trouble: what broke first is last.
    let lowest_in_trouble = condemned().find(|(_, m)| !m.is_available()).map(|(ordinal, _)| ordinal);
    let may_go = member.is_available() || lowest_in_trouble == Some(highest);
    if member.state != State::Terminating && may_go {
        steps.push(Step::Delete(*highest));
    }
    true
}

/// The outdated pods that go now so that new ones take their places.
fn update(ask: &Ask, members: &BTreeMap<i32, Member>) -> Vec<i32> {
    let Update::Rolling { partition, max_unavailable } = ask.update else { return Vec::new() };
    let unavailable = ask
        .ordinals
        .clone()
        .filter(|ordinal| members.get(ordinal).is_none_or(|member| !member.is_available()))
        .count();
    let spare = max_unavailable.saturating_sub(unavailable);
    let from = ask.ordinals.start.saturating_add(partition);
    let outdated: Vec<(i32, Member)> = (from..ask.ordinals.end)
        .rev()
        .filter_map(|ordinal| members.get(&ordinal).map(|member| (ordinal, *member)))
        .filter(|(_, member)| member.is_outdated())
        .collect();
    let available = outdated.iter().filter(|(_, member)| member.is_available());
    // What is down already costs nothing. In order nothing is down here: that was waited for.
    let down = outdated.iter().filter(|(_, member)| !member.is_available());
    down.chain(available.take(spare)).map(|(ordinal, _)| *ordinal).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
    fn ask(spec: Value) -> Ask {
        let mut whole = json!({"selector": {}, "serviceName": "", "template": {}});
        json_patch::merge(&mut whole, &spec);
        let set: StatefulSet =
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": whole})).unwrap();
        Ask::of(&set)
    }

    /// A letter a pod, by ordinal: `a`vailable, `r`eady, `u`nready, `p`ending, `x` ended, `t`erminating,
    /// `b`roken claims (and available), `-` none; capitals are updated.
    fn members(pods: &str) -> BTreeMap<i32, Member> {
        let states = pods.char_indices().filter(|(_, letter)| *letter != '-').map(|(ordinal, letter)| {
            let state = match letter.to_ascii_lowercase() {
                'a' | 'b' => State::Available,
                'r' => State::Ready,
                'u' => State::Unready { pending: false },
                'p' => State::Unready { pending: true },
                'x' => State::Ended,
                't' => State::Terminating,
                other => panic!("no state {other}"),
            };
            let sound = !letter.eq_ignore_ascii_case(&'b');
            let member = Member { state, updated: letter.is_ascii_uppercase(), sound };
            (i32::try_from(ordinal).unwrap(), member)
        });
        states.collect()
    }

    /// `+2 -1 ~0`: created, deleted, mended.
    fn steps(spec: Value, pods: &str) -> String {
        let told = next_steps(&ask(spec), &members(pods)).into_iter().map(|step| match step {
            Step::Create(ordinal) => format!("+{ordinal}"),
            Step::Delete(ordinal) => format!("-{ordinal}"),
            Step::Mend(ordinal) => format!("~{ordinal}"),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn in_order_one_thing_happens_at_a_time_sts_1() {
        for (rule, replicas, pods, expected) in [
            ("the first comes first", 3, "", "+0"),
            ("the next waits for it to start", 3, "P", ""),
            ("the next waits for it to be ready", 3, "U", ""),
            ("the next waits for it to be available", 3, "R", ""),
            ("then comes the next", 3, "A", "+1"),
            ("a gap is filled before the end", 3, "A-A", "+1"),
            ("a gap waits for those before it", 3, "U-A", ""),
            ("one that failed makes room", 3, "AXA", "-1"),
            ("one that goes is waited for", 3, "ATA", ""),
            ("nothing to do", 3, "AAA", ""),
            ("the highest goes first", 1, "AAA", "-2"),
            ("and is waited for", 1, "AAT", ""),
            ("and then the next", 1, "AA", "-1"),
            ("no one goes while one that stays is not ready", 1, "UAA", ""),
            ("one in trouble goes when it is the only one", 1, "AAU", "-2"),
            ("one in trouble waits for one before it in trouble", 1, "AUU", ""),
            ("a sound one goes before one in trouble", 1, "AUA", "-2"),
            ("all of them", 0, "AAA", "-2"),
            ("claims of those that go are put right first", 1, "ABA", "~1 -2"),
            ("claims are put right", 3, "ABA", "~1"),
        ] {
            assert_eq!(steps(json!({"replicas": replicas}), pods), expected, "{rule}");
        }
    }

    #[test]
    fn in_parallel_nothing_waits_sts_1() {
        let spec = |replicas: i32| json!({"replicas": replicas, "podManagementPolicy": "Parallel"});
        for (rule, replicas, pods, expected) in [
            ("all at once", 3, "", "+0 +1 +2"),
            ("the rest", 3, "P-U", "+1"),
            ("the failed make room", 4, "XAT", "-0 +3"),
            ("all that are too many go", 1, "UAXT", "-2 -1"),
            ("growing and shrinking at once", 2, "-AA", "+0 -2"),
        ] {
            assert_eq!(steps(spec(replicas), pods), expected, "{rule}");
        }
    }

    #[test]
    fn ordinals_start_where_they_are_told_sts_1() {
        let spec = json!({"replicas": 2, "ordinals": {"start": 2}});
        for (pods, expected) in [("", "+2"), ("--A", "+3"), ("AAAA", "-1"), ("A-AA", "-0"), ("--AAA", "-4")] {
            assert_eq!(steps(spec.clone(), pods), expected, "{pods}");
        }
    }

    #[test]
    fn an_update_goes_from_the_highest_down_to_the_partition_sts_2() {
        let rolling = |partition: i32, most: Value| {
            json!({"replicas": 5, "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"partition": partition, "maxUnavailable": most}}})
        };
        for (rule, partition, most, pods, expected) in [
            ("the highest first", 0, json!(1), "aaaaa", "-4"),
            ("it is waited for", 0, json!(1), "aaaat", ""),
            ("its successor is made", 0, json!(1), "aaaa-", "+4"),
            ("and must be available", 0, json!(1), "aaaaR", ""),
            ("then the next", 0, json!(1), "aaaaA", "-3"),
            ("down to the last", 0, json!(1), "aAAAA", "-0"),
            ("not below the partition", 3, json!(1), "aaaAA", ""),
            ("a partition above all", 9, json!(1), "aaaaa", ""),
            ("two at a time", 0, json!(2), "aaaaa", "-4 -3"),
            ("a part, rounded down", 0, json!("50%"), "aaaaa", "-4 -3"),
            ("at least one", 0, json!("10%"), "aaaaa", "-4"),
            ("a broken new pod stops it", 0, json!(1), "aaaaU", ""),
            ("and a broken old one in order", 0, json!(2), "auaaa", ""),
        ] {
            assert_eq!(steps(rolling(partition, most.clone()), pods), expected, "{rule}: {pods}");
        }
        let on_delete = json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
        assert_eq!(steps(on_delete, "aa"), "", "whoever deletes a pod updates it");
    }

    #[test]
    fn a_parallel_update_spends_nothing_on_what_is_down_sts_2() {
        let spec = |most: i32| {
            json!({"replicas": 5, "podManagementPolicy": "Parallel",
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": most}}})
        };
        for (rule, most, pods, expected) in [
            ("within the bound", 2, "aaaaa", "-4 -3"),
            ("a new one that is down counts", 2, "aaaaU", "-3"),
            ("no room", 2, "aaaTU", ""),
            ("an old one that is down goes and counts", 1, "uaaaa", "-0"),
            ("also when it is one of too many", 1, "uaauU", "-3 -0"),
            ("the rest of the bound is for those that are up", 3, "uaaaa", "-0 -4 -3"),
        ] {
            assert_eq!(steps(spec(most), pods), expected, "{rule}: {pods}");
        }
    }

    #[test]
    fn pods_below_the_partition_come_back_as_they_were_sts_2() {
        let spec = json!({"replicas": 4, "ordinals": {"start": 5},
            "updateStrategy": {"rollingUpdate": {"partition": 2}}});
        let updated: Vec<bool> = (5..9).map(|ordinal| ask(spec.clone()).is_updated_at(ordinal)).collect();
        assert_eq!(updated, [false, false, true, true]);
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        assert!(ask(on_delete).is_updated_at(0));
    }
}
