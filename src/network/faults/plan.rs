//! Decides about each fault. Pure: faults and the cluster in, the state of each fault out.

use std::collections::BTreeMap;

use base::sort::SliceOrder;
use extension::fault::{Fault, FaultPeer};
use fabric::nft::Reject;
use fabric::{DETOURS, Delay};
use object::SharedObject;
use object::owner::is_terminating;

use super::sides::ClusterState;
use crate::rules::{PacketEffect, PacketFault};

/// Maximum number of active faults: each one costs every packet a lookup.
pub(super) const MAX_ACTIVE_FAULTS: usize = 64;

/// The decision about a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaultDecision {
    /// The fault is to be active.
    InForce(ActiveFault),
    /// The fault cannot be active, with the reason.
    Inactive { reason: &'static str, message: String },
    /// The fault's time is over.
    Expired,
}

/// The effect of an active fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveFault {
    pub(super) broken: PacketFault,
    /// The delay of its packets, if they take a detour.
    pub(super) delay: Option<Delay>,
    /// Describes the two sides.
    pub(super) description: String,
    /// The sides without an address, in the notation of `podium fault`: if there is one, no packet is affected.
    pub(super) missing: Vec<String>,
}

/// Slots of detours by the uids of their faults.
pub(super) type Slots = BTreeMap<String, u8>;

/// Decides about all faults and updates the `slots` of delays. `is_over` says whether a fault's time is over; `refusal`
/// is the reason why no fault can be active here. Older faults take precedence.
pub(super) fn plan<'a>(
    faults: &'a [SharedObject<Fault>],
    world: &ClusterState,
    slots: &mut Slots,
    refusal: Option<&str>,
    is_over: impl Fn(&Fault) -> bool,
) -> Vec<(&'a SharedObject<Fault>, FaultDecision)> {
    let mut all: Vec<&SharedObject<Fault>> =
        faults.iter().filter(|fault| !fault.has_ended() && !is_terminating(&fault.metadata)).collect();
    all.retain(|fault| fault.is_of_network());
    all.order_by_key(|fault| (fault.metadata.creation_timestamp.clone(), fault.name().to_owned()));
    let slow = |fault: &Fault| fault.spec.latency.is_some();
    let keeps = |uid: &String| all.iter().any(|fault| fault.uid() == uid && slow(fault) && !is_over(fault));
    slots.retain(|uid, _| keeps(uid));
    let mut count = 0;
    let mut planned = Vec::new();
    for fault in all {
        let not = |reason, message: String| FaultDecision::Inactive { reason, message };
        let one = if is_over(fault) {
            FaultDecision::Expired
        } else if let Some(refusal) = refusal {
            not("NoNetworkOfTheirOwn", refusal.to_owned())
        } else if count >= MAX_ACTIVE_FAULTS {
            not("TooManyFaults", format!("{MAX_ACTIVE_FAULTS} faults are in force, which is the maximum"))
        } else if slow(fault) && slots.get(fault.uid()).is_none() && free(slots).is_none() {
            not("TooManyLatencies", format!("{DETOURS} latencies are in force, which is the maximum"))
        } else {
            let slot = slow(fault).then(|| {
                let free = free(slots).unwrap_or_default();
                *slots.entry(fault.uid().to_owned()).or_insert(free)
            });
            count += 1;
            FaultDecision::InForce(active_fault(fault, world, slot))
        };
        planned.push((fault, one));
    }
    planned
}

fn free(slots: &Slots) -> Option<u8> {
    (0..DETOURS).find(|slot| !slots.values().any(|taken| taken == slot))
}

fn active_fault(fault: &Fault, world: &ClusterState, slot: Option<u8>) -> ActiveFault {
    let spec = &fault.spec;
    let side = |peer: &Option<FaultPeer>| peer.as_ref().map(|peer| world.side(peer));
    let (from, to) = (side(&spec.from), side(&spec.to));
    let describe = |side: &Option<super::sides::FaultSide>| {
        side.as_ref().map_or_else(|| "all other addresses".to_owned(), |side| side.description.clone())
    };
    let arrow = if fault.is_one_way() { "to" } else { "and" };
    let sides = [(&spec.from, &from), (&spec.to, &to)];
    let missing = sides.into_iter().filter_map(|(peer, side)| match (peer, side) {
        (Some(peer), Some(side)) if side.nets.is_empty() => Some(peer.to_string()),
        _ => None,
    });
    let missing: Vec<String> = missing.collect();
    let how = match (slot, &spec.loss, &spec.rate) {
        (Some(slot), ..) => PacketEffect::Delay(slot),
        (None, Some(loss), _) => PacketEffect::Lose(u32::try_from(loss.per_mille).unwrap_or(0)),
        (None, None, Some(rate)) => {
            PacketEffect::Slow(u64::try_from(rate.bytes_per_second).unwrap_or(0).max(1))
        }
        (None, None, None) if spec.type_ == "Refuse" => {
            PacketEffect::Refuse(match spec.refuse.as_ref().and_then(|refuse| refuse.with.as_deref()) {
                Some("Prohibited") => Reject::Prohibited,
                Some("Unreachable") => Reject::PortUnreachable,
                _ => Reject::Reset,
            })
        }
        (None, None, None) => PacketEffect::Cut,
    };
    let delay = spec.latency.as_ref().map(|latency| {
        let (delay, jitter) = latency.times();
        Delay { delay, jitter }
    });
    ActiveFault {
        description: format!("{} {arrow} {}", describe(&from), describe(&to)),
        broken: PacketFault {
            from: from.map(|side| side.nets),
            to: to.map(|side| side.nets),
            is_one_way: fault.is_one_way(),
            how,
        },
        delay,
        missing,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn fault(name: &str, spec: &Value) -> SharedObject<Fault> {
        let value = json!({"metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    fn spec(type_: &str, more: &Value) -> Value {
        let mut spec = json!({"type": type_, "from": {"cidr": "10.1.0.0/16"}, "direction": "Both"});
        json_patch::merge(&mut spec, more);
        spec
    }

    fn outcome(planned: &FaultDecision) -> String {
        match planned {
            FaultDecision::InForce(met) => format!("{:?}: {}", met.broken.how, met.description),
            FaultDecision::Inactive { reason, .. } => (*reason).to_owned(),
            FaultDecision::Expired => "over".to_owned(),
        }
    }

    #[test]
    fn each_type_is_put_in_force_as_it_says_fault_1() {
        for (spec, expected) in [
            (spec("Partition", &json!({})), "Cut: 10.1.0.0/16 and all other addresses"),
            (
                spec("Partition", &json!({"to": {"cidr": "10.2.0.0/16"}, "direction": "OneWay"})),
                "Cut: 10.1.0.0/16 to 10.2.0.0/16",
            ),
            (spec("Loss", &json!({"loss": {"perMille": 7}})), "Lose(7): 10.1.0.0/16 and all other addresses"),
            (
                spec("Rate", &json!({"rate": {"bytesPerSecond": 5000}})),
                "Slow(5000): 10.1.0.0/16 and all other addresses",
            ),
            (spec("Refuse", &json!({})), "Refuse(Reset): 10.1.0.0/16 and all other addresses"),
            (
                spec("Refuse", &json!({"refuse": {"with": "Prohibited"}})),
                "Refuse(Prohibited): 10.1.0.0/16 and all other addresses",
            ),
            (
                spec("Latency", &json!({"latency": {"delay": "5ms"}})),
                "Delay(0): 10.1.0.0/16 and all other addresses",
            ),
        ] {
            let all = [fault("f", &spec)];
            let planned = plan(&all, &ClusterState::default(), &mut Slots::new(), None, |_| false);
            assert_eq!(outcome(&planned[0].1), expected);
            let refused =
                plan(&all, &ClusterState::default(), &mut Slots::new(), Some("loopback"), |_| false);
            assert_eq!(outcome(&refused[0].1), "NoNetworkOfTheirOwn");
            let over = plan(&all, &ClusterState::default(), &mut Slots::new(), None, |_| true);
            assert_eq!(outcome(&over[0].1), "over");
        }
    }

    #[test]
    fn ended_deleted_and_other_faults_are_ignored_fault_1() {
        let mut ended = (*fault("ended", &spec("Partition", &json!({})))).clone();
        ended.status = Some(serde_json::from_value(json!({"endedAt": "2026-01-01T00:00:30Z"})).unwrap());
        let mut going = (*fault("going", &spec("Partition", &json!({})))).clone();
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        let other = fault("other", &json!({"type": "PowerOff"}));
        let all = [SharedObject::from_value(ended), SharedObject::from_value(going), other];
        assert!(plan(&all, &ClusterState::default(), &mut Slots::new(), None, |_| false).is_empty());
    }

    #[test]
    fn there_are_no_more_than_there_may_be_and_slots_stay_fault_1() {
        let slow = |number: usize| {
            fault(
                &format!("slow-{number:02}"),
                &spec("Latency", &json!({"latency": {"delay": "5ms", "jitter": "1ms"}})),
            )
        };
        let all: Vec<SharedObject<Fault>> = (0..10).map(slow).collect();
        let mut slots = Slots::new();
        let outcomes = |planned: &[(&SharedObject<Fault>, FaultDecision)]| -> Vec<String> {
            planned
                .iter()
                .map(|(_, planned)| outcome(planned).split(':').next().unwrap_or_default().to_owned())
                .collect()
        };
        let planned = plan(&all, &ClusterState::default(), &mut slots, None, |_| false);
        assert_eq!(outcomes(&planned)[7..], ["Delay(7)", "TooManyLatencies", "TooManyLatencies"]);
        let FaultDecision::InForce(met) = &planned[0].1 else { panic!("{planned:?}") };
        let delay = Delay { delay: Duration::from_millis(5), jitter: Duration::from_millis(1) };
        assert_eq!(met.delay, Some(delay));
        // The third fault is gone: the ninth gets its slot, the others keep theirs.
        let fewer: Vec<SharedObject<Fault>> = (0..10).filter(|number| *number != 2).map(slow).collect();
        let planned = plan(&fewer, &ClusterState::default(), &mut slots, None, |_| false);
        assert_eq!(outcomes(&planned)[1..3], ["Delay(1)", "Delay(3)"]);
        assert_eq!(outcomes(&planned)[7..], ["Delay(2)", "TooManyLatencies"]);

        let cuts: Vec<SharedObject<Fault>> = (0..MAX_ACTIVE_FAULTS + 2)
            .map(|number| fault(&format!("cut-{number:03}"), &spec("Partition", &json!({}))))
            .collect();
        let planned = plan(&cuts, &ClusterState::default(), &mut Slots::new(), None, |_| false);
        assert_eq!(outcomes(&planned)[MAX_ACTIVE_FAULTS - 1..], ["Cut", "TooManyFaults", "TooManyFaults"]);
    }

    #[test]
    fn a_side_without_targets_is_reported_fault_1() {
        let all = [fault("f", &spec("Partition", &json!({"to": {"pod": "none"}})))];
        let planned = plan(&all, &ClusterState::default(), &mut Slots::new(), None, |_| false);
        let FaultDecision::InForce(met) = &planned[0].1 else { panic!("{planned:?}") };
        assert_eq!(met.missing, ["pod/default/none"]);
        assert!(met.description.ends_with("and no pod"), "{met:?}");
        // It begins when the pod exists; once it has started, it continues while the pod is replaced.
        let waits = crate::faults::status::state(planned[0].0, &planned[0].1, false);
        assert!(!waits.is_active && waits.reason == "NoTarget", "{waits:?}");
        assert!(waits.message.starts_with("pod/default/none: not found"), "{waits:?}");
        let mut started = Fault::clone(planned[0].0);
        started.status = serde_json::from_value(json!({"startedAt": "2026-11-21T00:00:00Z"})).unwrap();
        let continues = crate::faults::status::state(&started, &planned[0].1, false);
        assert!(continues.is_active && continues.selected.is_some_and(|(found, ..)| !found));
    }
}
