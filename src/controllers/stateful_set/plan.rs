//! Decides the next steps for one StatefulSet from its desired state and its pods.
//!
//! Pure; never looks at the API. In ordered mode (`OrderedReady`) one step is taken at a time and waits for all before
//! it. In parallel mode all due steps are taken at once, at most a burst of each type. The cost of a plan depends on
//! the existing pods, not on the desired number.

use super::desired::{DesiredSet, Policy, Update};
use super::member::{Member, Members, State};
use crate::pod_control::BURST;

/// One step for the pod with this ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Create it, with its claims.
    Create(i32),
    /// Delete it.
    Delete(i32),
    /// Repair its identity, volumes and claims.
    Repair(i32),
}

/// Returns the steps to take now, in this order; empty if there is something to wait for, or nothing to do.
pub(super) fn next_steps(desired: &DesiredSet, members: &Members) -> Vec<Action> {
    let mut steps = Vec::new();
    let waiting = fill(desired, members, &mut steps);
    if waiting {
        return steps;
    }
    let waiting = shrink(desired, members, &mut steps);
    if !waiting {
        steps.extend(update(desired, members).into_iter().map(Action::Delete));
    }
    steps
}

/// Creates missing pods, lowest ordinal first; returns true if the plan must wait for them.
fn fill(desired: &DesiredSet, members: &Members, steps: &mut Vec<Action>) -> bool {
    match desired.policy {
        Policy::OrderedReady => fill_in_order(desired, members, steps),
        Policy::Parallel => {
            let all = members.desired(desired).iter();
            steps.extend(
                all.filter_map(|(ordinal, member)| repair_pod(desired, *ordinal, *member)).take(BURST),
            );
            // Visits only as many ordinals as there are pods, plus a burst.
            let missing = desired.ordinals.clone().filter(|ordinal| members.get(*ordinal).is_none());
            steps.extend(missing.take(BURST).map(Action::Create));
            false
        }
    }
}

fn fill_in_order(desired: &DesiredSet, members: &Members, steps: &mut Vec<Action>) -> bool {
    for ordinal in desired.ordinals.clone() {
        let Some(member) = members.get(ordinal) else {
            steps.push(Action::Create(ordinal));
            return true;
        };
        steps.extend(repair_pod(desired, ordinal, member));
        if !member.is_available() || steps.len() >= BURST {
            return true;
        }
    }
    false
}

/// Returns the step for a pod within the desired ordinals.
fn repair_pod(desired: &DesiredSet, ordinal: i32, member: Member) -> Option<Action> {
    match member.state {
        State::Ended => Some(Action::Delete(ordinal)),
        // A pod may be pending because its claims are missing.
        State::Available | State::Unready { pending: true } if !member.sound => Some(Action::Repair(ordinal)),
        State::Ready | State::Unready { pending: false }
            if !member.sound && desired.policy == Policy::Parallel =>
        {
            Some(Action::Repair(ordinal))
        }
        _ => None,
    }
}

/// Deletes pods beyond the ordinals, highest first; returns true if the plan must wait for them.
fn shrink(desired: &DesiredSet, members: &Members, steps: &mut Vec<Action>) -> bool {
    // Claims that are deleted with their pods must have their owners before the pods are deleted.
    let condemned = || members.condemned(desired);
    let mut mended: Vec<i32> =
        condemned().rev().filter(|(_, m)| !m.sound).map(|(ordinal, _)| ordinal).take(BURST).collect();
    mended.reverse();
    let is_in_order = |ordinal: i32, member: Member| member.sound || mended.first() <= Some(&ordinal);
    steps.extend(mended.iter().map(|ordinal| Action::Repair(*ordinal)));
    if desired.policy == Policy::Parallel {
        let present = condemned().rev().filter(|(o, m)| m.state != State::Terminating && is_in_order(*o, *m));
        steps.extend(present.map(|(ordinal, _)| Action::Delete(ordinal)).take(BURST));
        return false;
    }
    let Some((highest, member)) = condemned().next_back() else { return false };
    // An unavailable pod is deleted only if no condemned pod below it is unavailable too.
    let lowest_unavailable = condemned().find(|(_, m)| !m.is_available()).map(|(ordinal, _)| ordinal);
    let may_go = member.is_available() || lowest_unavailable == Some(highest);
    if member.state != State::Terminating && may_go && is_in_order(highest, member) {
        steps.push(Action::Delete(highest));
    }
    true
}

/// Returns the outdated pods to delete now, so that new ones replace them.
fn update(desired: &DesiredSet, members: &Members) -> Vec<i32> {
    let Update::Rolling { partition, max_unavailable } = desired.update else { return Vec::new() };
    let there = members.desired(desired);
    let available = there.iter().filter(|(_, member)| member.is_available()).count();
    let spare = max_unavailable.saturating_sub(desired.ordinals.len().saturating_sub(available));
    let from = desired.ordinals.start.saturating_add(partition);
    let outdated: Vec<(i32, Member)> = there
        .iter()
        .rev()
        .copied()
        .filter(|(ordinal, member)| *ordinal >= from && member.is_outdated())
        .collect();
    let available = outdated.iter().filter(|(_, member)| member.is_available());
    // Deleting unavailable pods does not reduce the number of available ones. In ordered mode none is unavailable here,
    // because the plan has waited for that.
    let down = outdated.iter().filter(|(_, member)| !member.is_available());
    down.chain(available.take(spare)).map(|(ordinal, _)| *ordinal).take(BURST).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::stateful_set::desired::tests::desired;

    /// Parses one letter for each pod, by ordinal: `a`vailable, `r`eady, `u`nready, `p`ending, `x` ended,
    /// `t`erminating, `b`roken claims (and available), `-` none; capitals are updated.
    fn members(pods: &str) -> Members {
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
        Members::in_order(states.collect())
    }

    /// Formats steps as `+2 -1 ~0`: created, deleted, repaired.
    fn steps(spec: Value, pods: &str) -> String {
        let actual = next_steps(&desired(spec), &members(pods)).into_iter().map(|step| match step {
            Action::Create(ordinal) => format!("+{ordinal}"),
            Action::Delete(ordinal) => format!("-{ordinal}"),
            Action::Repair(ordinal) => format!("~{ordinal}"),
        });
        actual.collect::<Vec<_>>().join(" ")
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
    fn ordinals_start_at_the_specified_number_sts_1() {
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
        assert_eq!(steps(on_delete, "aa"), "", "with OnDelete only a deletion updates a pod");
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

    /// The cost of a plan depends on the existing pods and the burst, not on the number of replicas.
    #[test]
    fn no_number_makes_a_plan_larger_than_a_burst_sts_1() {
        for replicas in [i32::MAX, i32::MAX - 1, 1_000_000] {
            for start in [0, 1, 7, i32::MAX - 2, i32::MAX] {
                for partition in [0, 3, i32::MAX] {
                    for most in [json!(1), json!(i32::MAX), json!("100%"), json!("1%")] {
                        let spec = json!({"replicas": replicas, "ordinals": {"start": start},
                            "podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate":
                                {"partition": partition, "maxUnavailable": most}}});
                        let actual = next_steps(&desired(spec.clone()), &members("aAuxtB"));
                        assert!(actual.len() <= 4 * BURST, "{spec}: {}", actual.len());
                        let made = actual.iter().filter(|step| matches!(step, Action::Create(_))).count();
                        assert!(made <= BURST, "{spec}");
                    }
                }
            }
        }
        let ordered = json!({"replicas": i32::MAX, "ordinals": {"start": i32::MAX - 1}});
        assert_eq!(steps(ordered.clone(), ""), format!("+{}", i32::MAX - 1));
        let parallel = json!({"replicas": i32::MAX, "podManagementPolicy": "Parallel"});
        let actual = next_steps(&desired(parallel), &members("a-a"));
        assert_eq!((actual.len(), actual[0], actual[1]), (BURST, Action::Create(1), Action::Create(3)));
    }

    #[test]
    fn more_pods_than_a_burst_go_the_highest_first_sts_1() {
        let spec = json!({"replicas": 1, "podManagementPolicy": "Parallel"});
        let actual = next_steps(&desired(spec), &members(&"A".repeat(BURST + 100)));
        let highest = i32::try_from(BURST).unwrap() + 99;
        assert_eq!(
            (actual.len(), actual[0], actual[1]),
            (BURST, Action::Delete(highest), Action::Delete(highest - 1))
        );
    }
}
