//! The kernel rules of faults between two sides of the network (NET-10), and the handover from the fault controller.
//!
//! Pure except for the handover. Faults apply to packets between leaves in the forward hook, after services' addresses
//! have been translated to those of endpoints; to packets to the world before egress takes them; and to packets from
//! the world in the output hook of the fabric. No packet is affected twice: packets that come back from a detour are
//! skipped. New and established connections are treated alike.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabric::nft::{
    BaseChain, Element, Family, Field, Hook, Key, Kind, Reject, Rule, Set, Statement, Verdict,
};
use fabric::{DETOUR_LINK, DETOUR_MARK};
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::base::{HAIRPIN, INSIDE, TCP, accept_served_outside};
use super::names::short;
use super::owner_rules::{FamilyRules, OwnerRules};

/// Timeout for callers that wait until rules are applied; the kernel's refusals are retried from time to time.
const APPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// A fault between two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketFault {
    /// Addresses of one side; `None` means all that are not on the other.
    pub(crate) from: Option<Vec<IpNet>>,
    /// Addresses of the other side; `None` as for `from`.
    pub(crate) to: Option<Vec<IpNet>>,
    /// Affects only packets from `from` to `to`.
    pub(crate) is_one_way: bool,
    pub(crate) how: PacketEffect,
}

/// The effect on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketEffect {
    /// Drops all packets.
    Cut,
    /// Drops this many of a thousand packets.
    Lose(u32),
    /// Drops packets beyond this many bytes per second.
    Slow(u64),
    /// Rejects packets with an error to the sender; with `Reset`, TCP gets a reset.
    Refuse(Reject),
    /// Sends packets through the detour of this slot.
    Delay(u8),
}

/// Priority before egress, which is at -150.
const BEFORE_OUT: i32 = -160;
/// Priority after the translation of service addresses to endpoints, at -100.
const AFTER_TRANSLATION: i32 = -60;
/// Priority before policies, which are at 0.
const BEFORE_POLICIES: i32 = -10;
/// Priority before connection tracking, which is at -200.
const BEFORE_CONNECTIONS: i32 = -300;

/// Returns a fault's rules in the tables of these families.
pub(super) fn rules_of(name: &str, broken: &PacketFault, families: &[Family]) -> OwnerRules {
    let mut piece = OwnerRules::default();
    for family in families {
        let Some(sides) = Sides::of(name, broken, *family) else { continue };
        sides.fill(piece.half(*family), broken);
    }
    piece
}

/// The two sides in one family, as named sets.
struct Sides<'a> {
    name: &'a str,
    from: Option<(String, Vec<IpNet>)>,
    to: Option<(String, Vec<IpNet>)>,
}

impl<'a> Sides<'a> {
    /// Returns `None` if a side has no address of this family, so that no packet is affected.
    fn of(name: &'a str, broken: &PacketFault, family: Family) -> Option<Self> {
        let side = |label: &str, all: &Option<Vec<IpNet>>| match all {
            None => Some(None),
            Some(all) => {
                let own: Vec<IpNet> =
                    all.iter().copied().filter(|net| Family::of(net.addr()) == family).collect();
                let own = IpNet::aggregate(&own);
                (!own.is_empty()).then(|| Some((short(format!("fault/{label}/{name}")), own)))
            }
        };
        let (from, to) = (side("from", &broken.from)?, side("to", &broken.to)?);
        (from.is_some() || to.is_some()).then_some(Self { name, from, to })
    }

    /// Returns the matches for packets in each affected direction.
    fn ways(&self, is_one_way: bool) -> Vec<Rule> {
        let sets = (self.from.as_ref().map(|side| &side.0), self.to.as_ref().map(|side| &side.0));
        let is_at = |field, own: Option<&String>, other: Option<&String>| match (own, other) {
            (Some(own), _) => Some(Statement::In(vec![field], own.clone())),
            (None, Some(other)) => Some(Statement::NotIn(vec![field], other.clone())),
            (None, None) => None,
        };
        let direction = |(from, to): (Option<&String>, Option<&String>)| {
            let both = [is_at(Field::SourceAddress, from, to), is_at(Field::DestinationAddress, to, from)];
            both.into_iter().flatten().collect::<Rule>()
        };
        let there = direction(sets);
        if is_one_way { vec![there] } else { vec![there, direction((sets.1, sets.0))] }
    }

    fn fill(&self, half: &mut FamilyRules, broken: &PacketFault) {
        for (name, nets) in [&self.from, &self.to].into_iter().flatten() {
            half.set(Set::new(name, &[Field::SourceAddress]).of_intervals());
            for net in nets {
                let (first, last) = (Key::new().ip(net.network()), Key::new().ip(net.broadcast()));
                half.element(name, Element::range(first, last));
            }
        }
        let chain = |label: &str| short(format!("fault/{label}/{}", self.name));
        let ways = self.ways(broken.is_one_way);
        let with = |before: &[Rule], ends: &[Rule]| {
            let matching = ways.iter().flat_map(|way| ends.iter().map(move |end| [&way[..], end].concat()));
            before.iter().cloned().chain(matching).collect::<Vec<Rule>>()
        };
        let accept = || Statement::Verdict(Verdict::Accept);
        let returned = || vec![Statement::Is(vec![Field::Link], Key::new().links(DETOUR_LINK)), accept()];
        let itself = || {
            vec![
                Statement::In(vec![Field::SourceAddress, Field::DestinationAddress], HAIRPIN.to_owned()),
                accept(),
            ]
        };
        let inside = |field| Statement::In(vec![field], INSIDE.to_owned());
        let outside = |field| Statement::NotIn(vec![field], INSIDE.to_owned());
        // Exceptions for packets that are forwarded, that leave for the world, and that come from it.
        let between = [returned(), itself(), vec![outside(Field::DestinationAddress), accept()]];
        let mut out = vec![returned(), vec![inside(Field::DestinationAddress), accept()]];
        out.extend(accept_served_outside());
        let back = [vec![inside(Field::SourceAddress), accept()]];
        let ends = broken.how.ends();
        let base = |kind, hook, priority| BaseChain { kind, hook, priority };
        if let PacketEffect::Delay(slot) = broken.how {
            let place = i32::from(slot);
            // A base chain cannot be moved: another slot or another type needs another chain.
            let chain = |label: &str| chain(&format!("{label}-{slot}"));
            let detoured = base(Kind::Filter, Hook::PreRouting, AFTER_TRANSLATION + place);
            half.base_chain(&chain("detour"), detoured, with(&between, &ends));
            let detoured = base(Kind::Filter, Hook::PreRouting, BEFORE_OUT - 10 + place);
            half.base_chain(&chain("detour-out"), detoured, with(&out, &ends));
            let detoured = base(Kind::Route, Hook::Output, AFTER_TRANSLATION + place);
            half.base_chain(&chain("detour-back"), detoured, with(&back, &ends));
            // Packets from the detour were tracked before it, under the addresses that they had then.
            let own = Statement::Is(vec![Field::Link], Key::new().link(&format!("{DETOUR_LINK}{slot}")));
            let known = base(Kind::Filter, Hook::PreRouting, BEFORE_CONNECTIONS);
            half.base_chain(&chain("returned"), known, vec![vec![own, Statement::NoTrack]]);
            return;
        }
        let forwarded = base(Kind::Filter, Hook::Forward, BEFORE_POLICIES);
        half.base_chain(&chain("between"), forwarded, with(&between, &ends));
        let leaving = base(Kind::Filter, Hook::PreRouting, BEFORE_OUT);
        half.base_chain(&chain("out"), leaving, with(&out, &ends));
        // If both directions are refused, the only packets from outside are the refusals themselves, which must pass.
        if !matches!(broken.how, PacketEffect::Refuse(_)) || broken.is_one_way {
            let answering = base(Kind::Filter, Hook::Output, BEFORE_POLICIES);
            half.base_chain(&chain("back"), answering, with(&back, &ends));
        }
    }
}

impl PacketEffect {
    /// Returns the statements that end the rules, after the match.
    fn ends(self) -> Vec<Rule> {
        let drop = || Statement::Verdict(Verdict::Drop);
        let tcp = || Statement::Is(vec![Field::Protocol], Key::new().protocol(TCP));
        match self {
            Self::Cut => vec![vec![drop()]],
            Self::Lose(share) => vec![vec![Statement::PerMilleOfPackets(share), drop()]],
            Self::Slow(bytes) => vec![vec![Statement::BytesPerSecondOver(bytes), drop()]],
            Self::Refuse(Reject::Reset) => {
                vec![
                    vec![tcp(), Statement::Reject(Reject::Reset)],
                    vec![Statement::Reject(Reject::PortUnreachable)],
                ]
            }
            Self::Refuse(how) => vec![vec![Statement::Reject(how)]],
            Self::Delay(slot) => vec![vec![Statement::SetMark(DETOUR_MARK | u32::from(slot))]],
        }
    }
}

/// The desired faults, and which of them are applied.
pub(crate) struct FaultRules {
    wishes: Mutex<DesiredFaults>,
    changed: Notify,
    applied: watch::Sender<AppliedFaults>,
}

#[derive(Default)]
struct DesiredFaults {
    all: BTreeMap<String, PacketFault>,
    /// Names whose fault has changed since the last [`FaultRules::take`].
    dirty: BTreeSet<String>,
    /// Number of changes of the desired faults; 0 before the first.
    generation: u64,
}

/// The faults in the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppliedFaults {
    /// The desired faults up to this generation have been tried.
    pub(crate) generation: u64,
    /// Faults that the kernel refuses.
    pub(crate) refused: BTreeSet<String>,
}

impl Default for FaultRules {
    fn default() -> Self {
        let (settled, _) = watch::channel(AppliedFaults::default());
        Self { wishes: Mutex::default(), changed: Notify::new(), applied: settled }
    }
}

impl FaultRules {
    /// Replaces the desired faults and returns their generation.
    pub(crate) fn set_desired(&self, all: BTreeMap<String, PacketFault>) -> u64 {
        let mut wishes = self.wishes.lock();
        let names: BTreeSet<String> = wishes.all.keys().chain(all.keys()).cloned().collect();
        let changed = names.into_iter().filter(|name| wishes.all.get(name) != all.get(name));
        let changed: Vec<String> = changed.collect();
        if changed.is_empty() && wishes.generation > 0 {
            return wishes.generation;
        }
        wishes.dirty.extend(changed);
        wishes.all = all;
        wishes.generation += 1;
        let generation = wishes.generation;
        drop(wishes);
        self.changed.notify_one();
        generation
    }

    /// Waits until the desired faults of this generation have been tried, and returns the result for all faults; `None`
    /// after [`APPLY_TIMEOUT`].
    pub(crate) async fn wait_applied(&self, generation: u64) -> Option<AppliedFaults> {
        let mut applied = self.applied.subscribe();
        let waited = applied.wait_for(|settled| settled.generation >= generation);
        let applied = tokio::time::timeout(APPLY_TIMEOUT, waited).await.ok()?.ok()?.clone();
        Some(applied)
    }

    /// Waits until the applied faults differ from `known`.
    pub(crate) async fn wait_changed(&self, known: &AppliedFaults) {
        let mut applied = self.applied.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = applied.wait_for(|settled| settled != known).await;
    }

    /// Waits until the desired faults are known for the first time, so that no packet passes before its fault is
    /// applied.
    pub(super) async fn wait_first_apply(&self) {
        let applied = async {
            while self.wishes.lock().generation == 0 {
                self.changed.notified().await;
            }
        };
        if tokio::time::timeout(APPLY_TIMEOUT, applied).await.is_err() {
            tracing::warn!("network faults are not known yet; writing the rules without them");
        }
        self.changed.notify_one();
    }

    /// Waits for changes and takes them.
    pub(crate) async fn take(&self, families: &[Family]) -> (u64, Vec<(String, OwnerRules)>) {
        loop {
            let changed = self.changed.notified();
            let (turn, taken) = self.take_now(families);
            if turn > self.applied.borrow().generation {
                return (turn, taken);
            }
            changed.await;
        }
    }

    /// Takes the changes without waiting.
    pub(super) fn take_now(&self, families: &[Family]) -> (u64, Vec<(String, OwnerRules)>) {
        let mut wishes = self.wishes.lock();
        let dirty = std::mem::take(&mut wishes.dirty);
        let piece = |name: String| {
            let desired = wishes.all.get(&name).map(|broken| rules_of(&name, broken, families));
            (name, desired.unwrap_or_default())
        };
        (wishes.generation, dirty.into_iter().map(piece).collect())
    }

    /// Records that the desired faults of a generation have been tried, and which the kernel refuses.
    pub(crate) fn record_applied(&self, generation: u64, is_refused: impl Fn(&str) -> bool) {
        let names = self.wishes.lock().all.keys().filter(|name| is_refused(name)).cloned().collect();
        let now = AppliedFaults { generation, refused: names };
        self.applied.send_if_modified(|settled| {
            let is_new = *settled != now;
            *settled = now;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::rules::base::SERVED_OUTSIDE;

    fn nets(all: &[&str]) -> Option<Vec<IpNet>> {
        (all != ["*"]).then(|| all.iter().map(|net| net.parse().unwrap()).collect())
    }

    fn broken(from: &[&str], to: &[&str], is_one_way: bool, how: PacketEffect) -> PacketFault {
        PacketFault { from: nets(from), to: nets(to), is_one_way, how }
    }

    /// Returns a chain's verdict on a packet: the last statement of the first rule that matches, `-` if none does.
    fn verdict_of(half: &FamilyRules, chain: &str, from: &str, to: &str) -> String {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let Some(chain) = half.chains.get(chain) else { return "-".to_owned() };
        let is_inside = |ip: IpAddr| {
            ["10.0.0.0/8", "fd00::/16"].iter().any(|net| net.parse::<IpNet>().unwrap().contains(&ip))
        };
        let has = |set: &str, fields: &[Field]| {
            if set == HAIRPIN {
                return from == to;
            }
            let ip = if fields == [Field::SourceAddress] { from } else { to };
            if set == INSIDE {
                return is_inside(ip);
            }
            if set == SERVED_OUTSIDE {
                return to == IpAddr::from([198, 51, 100, 1]);
            }
            assert!(half.sets.contains_key(set), "the set {set} is not declared");
            let key = Key::new().ip(ip);
            half.elements[set].iter().any(|one| one.key <= key && key <= *one.last.as_ref().unwrap())
        };
        for rule in &chain.rules {
            let (last, before) = rule.split_last().unwrap();
            let matches = before.iter().all(|part| match part {
                Statement::In(fields, set) => has(set, fields),
                Statement::NotIn(fields, set) => !has(set, fields),
                // Test packets do not come from a detour, are not TCP, and belong to no translated connection.
                Statement::Is(..) | Statement::HasBits(..) => false,
                _ => true,
            });
            if matches && *last == Statement::Verdict(Verdict::Accept) {
                return "-".to_owned();
            }
            if matches {
                return format!("{last:?}");
            }
        }
        "-".to_owned()
    }

    /// The packets that each kind of side affects, and those that it does not, when forwarded, leaving and returning.
    #[test]
    fn a_fault_affects_only_packets_between_its_sides_net_10() {
        const CUT: &str = "Verdict(Drop)";
        let (a, b, c) = ("10.244.1.1", "10.244.2.1", "10.244.3.1");
        let world = "203.0.113.7";
        for (from, to, one_way, packets) in [
            // Two sides: both directions, or one.
            (
                &["10.244.1.0/24"][..],
                &["10.244.2.0/24"][..],
                false,
                &[
                    ("between", a, b, CUT),
                    ("between", b, a, CUT),
                    ("between", a, c, "-"),
                    ("between", c, b, "-"),
                    ("between", a, "10.244.1.9", "-"),
                    ("out", a, world, "-"),
                    ("back", world, a, "-"),
                ][..],
            ),
            (&["10.244.1.0/24"], &["10.244.2.0/24"], true, &[("between", a, b, CUT), ("between", b, a, "-")]),
            // One side and all others: not the side itself.
            (
                &["10.244.1.0/24"],
                &["*"],
                false,
                &[
                    ("between", a, b, CUT),
                    ("between", b, a, CUT),
                    ("between", a, "10.244.1.9", "-"),
                    ("between", b, c, "-"),
                    ("out", a, world, CUT),
                    // A service is served at this address; the fault affects its endpoint when the packet is forwarded.
                    ("out", a, "198.51.100.1", "-"),
                    ("back", world, a, CUT),
                    ("back", world, b, "-"),
                    // Each chain ignores packets of the other hooks.
                    ("out", a, b, "-"),
                    ("between", a, world, "-"),
                    ("back", b, a, "-"),
                ],
            ),
            (
                &["*"],
                &["10.244.1.0/24"],
                true,
                &[
                    ("between", a, b, "-"),
                    ("between", b, a, CUT),
                    ("out", a, world, "-"),
                    ("back", world, a, CUT),
                ],
            ),
            // The world.
            (
                &["10.244.1.1/32"],
                &["203.0.113.0/24"],
                false,
                &[
                    ("out", a, world, CUT),
                    ("back", world, a, CUT),
                    ("out", a, "203.0.112.7", "-"),
                    ("out", b, world, "-"),
                ],
            ),
            // A pod that reaches itself through a service uses no network.
            (&["10.244.1.1/32"], &["10.0.0.0/8"], false, &[("between", a, a, "-"), ("between", a, b, CUT)]),
        ] {
            let piece =
                rules_of("f", &broken(from, to, one_way, PacketEffect::Cut), &[Family::V4, Family::V6]);
            assert!(!piece.halves.contains_key(&Family::V6), "no address of IPv6 is met");
            for (chain, from_ip, to_ip, fate) in packets {
                let verdict =
                    verdict_of(&piece.halves[&Family::V4], &format!("fault/{chain}/f"), from_ip, to_ip);
                assert_eq!(verdict, *fate, "{from:?} to {to:?}: {chain} {from_ip} to {to_ip}");
            }
        }
        let both = broken(
            &["10.244.1.1/32", "fd00::1/128"],
            &["10.244.2.0/24", "fd00::2:0/112"],
            false,
            PacketEffect::Cut,
        );
        let piece = rules_of("f", &both, &[Family::V4, Family::V6]);
        assert_eq!(verdict_of(&piece.halves[&Family::V6], "fault/between/f", "fd00::1", "fd00::2:7"), CUT);
        assert_eq!(verdict_of(&piece.halves[&Family::V6], "fault/between/f", "fd00::1", "fd00::3:7"), "-");
    }

    #[test]
    fn packets_get_the_verdict_of_their_fault_net_10() {
        for (how, between, back) in [
            (PacketEffect::Cut, "Verdict(Drop)", "Verdict(Drop)"),
            (PacketEffect::Lose(100), "Verdict(Drop)", "Verdict(Drop)"),
            (PacketEffect::Slow(5_000), "Verdict(Drop)", "Verdict(Drop)"),
            // The refusal itself comes from outside and must pass.
            (PacketEffect::Refuse(Reject::Reset), "Reject(PortUnreachable)", "-"),
            (PacketEffect::Refuse(Reject::Prohibited), "Reject(Prohibited)", "-"),
            (PacketEffect::Delay(3), "SetMark(259)", "SetMark(259)"),
        ] {
            let piece = rules_of("f", &broken(&["10.1.0.0/16"], &["*"], false, how), &[Family::V4]);
            let half = &piece.halves[&Family::V4];
            let (forwarded, answering) = match how {
                PacketEffect::Delay(_) => ("fault/detour-3/f", "fault/detour-back-3/f"),
                _ => ("fault/between/f", "fault/back/f"),
            };
            assert_eq!(verdict_of(half, forwarded, "10.1.0.1", "10.2.0.1"), between, "{how:?}");
            assert_eq!(verdict_of(half, answering, "203.0.113.7", "10.1.0.1"), back, "{how:?}");
            let parts =
                |part: &Statement| half.chains[forwarded].rules.iter().any(|rule| rule.contains(part));
            assert_eq!(parts(&Statement::PerMilleOfPackets(100)), how == PacketEffect::Lose(100));
            assert_eq!(parts(&Statement::BytesPerSecondOver(5_000)), how == PacketEffect::Slow(5_000));
            assert_eq!(parts(&Statement::Reject(Reject::Reset)), how == PacketEffect::Refuse(Reject::Reset));
            assert_eq!(half.chains.contains_key("fault/returned-3/f"), how == PacketEffect::Delay(3));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wishes_are_handed_over_once_and_their_fate_comes_back_net_10() {
        let (rules, families) = (FaultRules::default(), [Family::V4]);
        assert_eq!(rules.take_now(&families).0, 0);
        let cut = broken(&["10.1.0.0/16"], &["*"], false, PacketEffect::Cut);
        let all: BTreeMap<String, PacketFault> =
            [("a".to_owned(), cut.clone()), ("b".to_owned(), cut)].into();
        let generation = rules.set_desired(all.clone());
        assert_eq!(rules.set_desired(all.clone()), generation, "nothing new");
        let (taken, pieces) = rules.take(&families).await;
        assert_eq!((taken, pieces.len()), (generation, 2));
        rules.record_applied(taken, |name| name == "b");
        assert_eq!(rules.wait_applied(generation).await.unwrap().refused, ["b".to_owned()].into());
        let generation = rules.set_desired([("b".to_owned(), all["b"].clone())].into());
        let (taken, pieces) = rules.take(&families).await;
        assert_eq!((taken, pieces), (generation, vec![("a".to_owned(), OwnerRules::default())]));
        // No task applies the rules.
        assert_eq!(rules.wait_applied(generation).await, None);
    }
}
