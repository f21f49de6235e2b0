//! Network policies in the kernel's tables: evaluated as the kernel does, measured by what a change of one policy
//! rewrites, and written into a real kernel.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fabric::nft::{Element, Family, Field, Hook, Key as FieldKey, Statement, Table, Value as Says, Verdict};
use fabric::preflight::{CLIENT, LEAVES, PreflightFabric, SERVER};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use object::Key;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};

use super::Owner;
use super::base::{EgressMode, TCP, UDP, base};
use super::kernel::Kernel;
use super::owner_rules::{BatchSteps, FamilyRules, OwnerRules, RulesUpdate};
use super::policy_parts::MAX_RULES;
use super::policy_rules::PolicyRules;
use network_policy::{Direction, Index, Isolation, Member, Model, Peers, Protocol};

const BOTH: [Family; 2] = [Family::V4, Family::V6];

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn stage_pod(index: &mut Index, name: &str, labels: &Value, ips: &[IpAddr]) {
    let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let pod: Pod = from_value(json!({
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 80}]}]},
        "status": {"phase": "Running", "podIP": ips.first(), "podIPs": all}}))
    .unwrap();
    index.stage_pod(&key(name), Some(&pod));
}

fn stage_policy(index: &mut Index, name: &str, spec: Option<&Value>) {
    let policy: Option<NetworkPolicy> = spec.map(|spec| from_value(json!({"spec": spec})).unwrap());
    index.stage_policy(&key(name), policy.as_ref());
}

fn in_parts_of(most: usize) -> PolicyRules {
    let mut judgement = PolicyRules::in_parts_of(most);
    judgement.index.stage_namespace("default", Some(&Namespace::default()));
    judgement
}

/// The amount that a change writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WriteCounts {
    chains: usize,
    rules: usize,
    /// Bytes of netlink messages, without elements added to other owners' sets.
    bytes: usize,
}

/// The tables of all owners.
#[derive(Default)]
struct Tables {
    tables_by_owner: HashMap<Owner, OwnerRules>,
}

impl Tables {
    /// Applies changes, and counts what a kernel would get.
    fn apply(&mut self, wishes: Vec<(Owner, RulesUpdate)>) -> WriteCounts {
        let mut written = WriteCounts::default();
        let none = FamilyRules::default();
        for (owner, wish) in wishes {
            let now = match wish {
                RulesUpdate::Change(delta) => {
                    delta.apply(self.tables_by_owner.entry(owner).or_default());
                    continue;
                }
                RulesUpdate::Whole(now) => now,
            };
            let before = self.tables_by_owner.remove(&owner).unwrap_or_default();
            for family in BOTH {
                let [was, is] = [&before, &now].map(|piece| piece.halves.get(&family).unwrap_or(&none));
                let mut steps = BatchSteps::default();
                steps.between(&Table { family, name: "t".to_owned() }, was, is);
                written.bytes += steps.bytes();
                let others = is.chains.iter().filter(|(name, chain)| was.chains.get(*name) != Some(*chain));
                for (_, chain) in others {
                    written.chains += 1;
                    written.rules += chain.rules.len();
                }
            }
            if !now.is_empty() {
                self.tables_by_owner.insert(owner, now);
            }
        }
        written
    }

    /// Returns all rules of one family, including the base rules.
    fn half(&self, family: Family) -> FamilyRules {
        let inside = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let mut all = base(&BOTH, &inside, Some(EgressMode::Accepted)).halves.remove(&family).unwrap();
        for half in self.tables_by_owner.values().filter_map(|piece| piece.halves.get(&family)) {
            let chains = all.chains.len() + half.chains.len();
            all.chains.extend(half.chains.clone());
            assert_eq!(all.chains.len(), chains, "a chain is one owner's");
            all.sets.extend(half.sets.clone());
            for (set, elements) in &half.elements {
                all.elements.entry(set.clone()).or_default().extend(elements.iter().cloned());
            }
        }
        all
    }
}

/// The first packet of a connection.
#[derive(Clone, Copy, Debug)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: Protocol,
    port: u16,
    mark: u32,
}

impl Packet {
    fn key(&self, fields: &[Field]) -> FieldKey {
        fields.iter().fold(FieldKey::new(), |key, field| match field {
            Field::SourceAddress => key.ip(self.source),
            Field::DestinationAddress => key.ip(self.destination),
            Field::Protocol => key.protocol(if self.protocol == Protocol::Tcp { TCP } else { UDP }),
            Field::DestinationPort => key.port(self.port),
            Field::Mark => key.number(self.mark),
            other => panic!("no policy asks for {other:?}"),
        })
    }
}

/// The final verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketEnd {
    Accepted,
    Dropped,
    /// Delivered to a socket of the fabric.
    ToSocket,
}

/// Evaluates tables as the kernel does.
struct RuleEvaluator<'a>(&'a FamilyRules);

impl RuleEvaluator<'_> {
    /// Returns the verdict on a packet at a hook, by the filter chains between these priorities.
    fn hook(&self, hook: Hook, priorities: std::ops::RangeInclusive<i32>, mut packet: Packet) -> PacketEnd {
        let chains = self.0.chains.iter().filter_map(|(name, chain)| Some((chain.base?, name)));
        let chains = chains.filter(|(base, _)| base.hook == hook && priorities.contains(&base.priority));
        let chains: BTreeMap<i32, &String> = chains.map(|(base, name)| (base.priority, name)).collect();
        for name in chains.into_values() {
            match self.chain(name, &mut packet, 1) {
                None | Some(PacketEnd::Accepted) => {}
                Some(end) => return end,
            }
        }
        PacketEnd::Accepted
    }

    fn chain(&self, name: &str, packet: &mut Packet, depth: usize) -> Option<PacketEnd> {
        assert!(depth <= 8, "the kernel follows 16 jumps");
        for rule in &self.0.chains[name].rules {
            match self.rule(rule, packet) {
                None => {}
                Some(RuleResult::End(end)) => return Some(end),
                Some(RuleResult::Verdict(verdict)) => match verdict {
                    Verdict::Accept => return Some(PacketEnd::Accepted),
                    Verdict::Drop => return Some(PacketEnd::Dropped),
                    Verdict::Return => return None,
                    Verdict::Goto(name) => return self.chain(&name, packet, depth),
                    Verdict::Jump(name) => match self.chain(&name, packet, depth + 1) {
                        None => {}
                        end => return end,
                    },
                },
            }
        }
        None
    }

    fn rule(&self, rule: &[Statement], packet: &mut Packet) -> Option<RuleResult> {
        let mut taken = false;
        for part in rule {
            let goes_on = match part {
                Statement::Is(fields, key) => packet.key(fields) == *key,
                Statement::IsNot(fields, key) => packet.key(fields) != *key,
                Statement::In(fields, set) => self.element(set, &packet.key(fields)).is_some(),
                Statement::HasBits(Field::ConnectionState, bits) => bits & 8 > 0,
                Statement::HasBits(Field::Mark, bits) => packet.mark & bits > 0,
                // The packet belongs to no connection yet, so its destination was not translated.
                Statement::OfTransparentSocket | Statement::HasBits(Field::ConnectionStatus, _) => false,
                Statement::SetMark(mark) => {
                    packet.mark = *mark;
                    true
                }
                Statement::Tproxy(_) => {
                    taken = true;
                    true
                }
                Statement::DispatchBy(fields, numbers, verdicts) => {
                    let Some(Says::Key(number)) = &self.element(numbers, &packet.key(fields))?.value else {
                        panic!("{numbers} leads to numbers");
                    };
                    let led = self.element(verdicts, number).and_then(|element| element.value.as_ref());
                    let Some(Says::Verdict(verdict)) = led else { panic!("{number:?} leads to {led:?}") };
                    return Some(RuleResult::Verdict(verdict.clone()));
                }
                Statement::Verdict(_) if taken => return Some(RuleResult::End(PacketEnd::ToSocket)),
                Statement::Verdict(verdict) => return Some(RuleResult::Verdict(verdict.clone())),
                Statement::Reject(_) => return Some(RuleResult::End(PacketEnd::Dropped)),
                other => panic!("no policy has {other:?}"),
            };
            if !goes_on {
                return None;
            }
        }
        None
    }

    /// Returns the element of a set that contains a key.
    fn element(&self, set: &str, key: &FieldKey) -> Option<&Element> {
        assert!(self.0.sets.contains_key(set), "the set {set} is not declared");
        let mut elements = self.0.elements.get(set)?.iter();
        let has = |from: &FieldKey, to: Option<&FieldKey>| from <= key && key <= to.unwrap_or(from);
        elements.find(|element| has(&element.key, element.last.as_ref()))
    }
}

/// The result of a rule that matches.
enum RuleResult {
    Verdict(Verdict),
    End(PacketEnd),
}

/// Returns whether a packet passes between leaves.
fn is_forwarded(half: &FamilyRules, packet: Packet) -> bool {
    RuleEvaluator(half).hook(Hook::Forward, 0..=99, packet) == PacketEnd::Accepted
}

/// Returns whether a packet to the world is diverted to egress.
fn leaves(half: &FamilyRules, packet: Packet) -> bool {
    RuleEvaluator(half).hook(Hook::PreRouting, -155..=-150, packet) == PacketEnd::ToSocket
}

/// Returns the model's decision for one end.
fn allows(model: &Model, direction: Direction, packet: Packet) -> bool {
    let Packet { source, destination, protocol, port, .. } = packet;
    let (own, other) = match direction {
        Direction::Egress => (source, destination),
        Direction::Ingress => (destination, source),
    };
    let Some(pod) = model.pods.values().find(|pod| pod.ips.contains(&own)) else { return true };
    let allowed = |isolation: &Isolation| {
        let is_peer = |peers: &Peers| match peers {
            Peers::Any => true,
            Peers::Set(id) => model.sets[id].contains(&Member::Address(other)),
            Peers::Block(block) => block.contains(other),
        };
        let endpoint = Member::Endpoint(destination, protocol, port);
        isolation.peers.iter().any(|(peers, ports)| is_peer(peers) && ports.contains(protocol, port))
            || isolation.endpoints.iter().any(|id| model.sets[id].contains(&endpoint))
    };
    pod.isolation(direction).is_none_or(allowed)
}

const PODS: u8 = 7;
const WORLD: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), IpAddr::V4(Ipv4Addr::new(192, 0, 3, 7))];

fn addresses(number: u8) -> [IpAddr; 2] {
    let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number) + 1);
    [Ipv4Addr::new(10, 244, 0, number + 1).into(), v6.into()]
}

/// A policy's peer: pods of an app, a block inside or outside the cluster, all pods of a namespace.
fn any_peer() -> impl Strategy<Value = Value> {
    let app = |app: u8| json!({"podSelector": {"matchLabels": {"app": format!("a{app}")}}});
    let of_pods = |host: u8| json!({"ipBlock": {"cidr": format!("10.244.0.{host}/32")}});
    prop_oneof![
        4 => (0..5_u8).prop_map(app),
        2 => (1..=PODS).prop_map(of_pods),
        1 => Just(json!({"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.64/26"]}})),
        1 => (1..=PODS).prop_map(|host| json!({"ipBlock": {"cidr": format!("fd00::{host}/128")}})),
        1 => Just(json!({"namespaceSelector": {}})),
    ]
}

fn any_ports() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(json!(null)),
        3 => (79..83_u16).prop_map(|port| json!([{"port": port}])),
        1 => Just(json!([{"port": "http"}])),
        1 => Just(json!([{"protocol": "UDP"}])),
        1 => (79..82_u16).prop_map(|port| json!([{"port": port, "endPort": 81}, {"port": 80, "protocol": "UDP"}])),
    ]
}

fn any_spec() -> impl Strategy<Value = Value> {
    let rules = || {
        let peers = prop_oneof![8 => prop::collection::vec(any_peer(), 1..4), 1 => Just(Vec::new())];
        prop::collection::vec((peers, any_ports()), 0..4)
    };
    let selects = prop_oneof![
        Just(json!({})),
        (0..3_u8).prop_map(|app| json!({"matchLabels": {"app": format!("a{app}")}}))
    ];
    let types = prop_oneof![
        2 => Just(json!(["Ingress", "Egress"])),
        1 => Just(json!(["Ingress"])),
        1 => Just(json!(["Egress"])),
    ];
    (selects, types, rules(), rules()).prop_map(|(selects, types, from, to)| {
        let rules = |key: &str, rules: Vec<(Vec<Value>, Value)>| {
            let rule = |(peers, ports)| json!({key: peers, "ports": ports});
            rules.into_iter().map(rule).collect::<Vec<_>>()
        };
        json!({"podSelector": selects, "policyTypes": types, "ingress": rules("from", from),
            "egress": rules("to", to)})
    })
}

/// A policy that is added, changed or removed, or a pod that changes its app.
#[derive(Clone, Debug)]
enum PolicyEvent {
    Policy(u8, Option<Value>),
    Pod(u8, u8),
}

fn any_step() -> impl Strategy<Value = PolicyEvent> {
    prop_oneof![
        6 => (0..5_u8, any_spec()).prop_map(|(name, spec)| PolicyEvent::Policy(name, Some(spec))),
        1 => (0..5_u8).prop_map(|name| PolicyEvent::Policy(name, None)),
        2 => (0..PODS, 0..5_u8).prop_map(|(pod, app)| PolicyEvent::Pod(pod, app)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// NET-8: chains in parts, of any size, accept what the model accepts, after any history.
    #[test]
    fn parts_say_what_the_whole_says_net_8(steps in prop::collection::vec(any_step(), 1..6)) {
        // Parts of single rules, of few rules, and no parts at all.
        let mut all = [0, 1, 3, usize::MAX].map(|most| (in_parts_of(most), Tables::default()));
        for (judgement, _) in &mut all {
            for pod in 0..PODS {
                let labels = json!({"app": format!("a{}", pod % 5)});
                stage_pod(&mut judgement.index, &format!("p{pod}"), &labels, &addresses(pod));
            }
        }
        for step in steps {
            for (judgement, tables) in &mut all {
                match &step {
                    PolicyEvent::Policy(name, spec) => {
                        stage_policy(&mut judgement.index, &format!("n{name}"), spec.as_ref());
                    }
                    PolicyEvent::Pod(pod, app) => {
                        let labels = json!({"app": format!("a{app}")});
                        stage_pod(&mut judgement.index, &format!("p{pod}"), &labels, &addresses(*pod));
                    }
                }
                let wishes = judgement.commit(&BOTH);
                tables.apply(wishes);
            }
            for (judgement, tables) in &all {
                let model = judgement.index.model();
                for (place, family) in BOTH.into_iter().enumerate() {
                    let half = tables.half(family);
                    for (from, to) in (0..PODS).flat_map(|from| (0..PODS).map(move |to| (from, to))) {
                        if from == to {
                            continue;
                        }
                        let [source, destination] = [from, to].map(|pod| addresses(pod)[place]);
                        for (protocol, port) in [(Protocol::Tcp, 80), (Protocol::Tcp, 82), (Protocol::Udp, 80)] {
                            let packet = Packet { source, destination, protocol, port, mark: 0 };
                            let expected = allows(model, Direction::Egress, packet)
                                && allows(model, Direction::Ingress, packet);
                            prop_assert_eq!(is_forwarded(&half, packet), expected, "{:?}", packet);
                            prop_assert!(!leaves(&half, packet));
                        }
                    }
                    for (pod, destination) in (0..PODS).flat_map(|pod| WORLD.map(|ip| (pod, ip))) {
                        if family == Family::V6 {
                            continue;
                        }
                        let source = addresses(pod)[0];
                        let packet = Packet { source, destination, protocol: Protocol::Tcp, port: 80, mark: 0 };
                        let expected = allows(model, Direction::Egress, packet);
                        prop_assert_eq!(leaves(&half, packet), expected, "{:?}", packet);
                    }
                }
            }
        }
    }
}

/// A policy for every pod: peers of an app, or in a block, may connect to a port, and every pod may connect to it.
fn shared_policy(number: u32, port: u32) -> Value {
    let peer = match number % 10 {
        0 => json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [format!("10.{}.0.0/16", number % 250)]}}),
        _ => json!({"podSelector": {"matchLabels": {"app": format!("a{}", number % 500)}}}),
    };
    let ports = match number % 7 {
        0 => json!([{"port": port, "endPort": port + 5}, {"port": 53, "protocol": "UDP"}]),
        _ => json!([{"port": port}]),
    };
    json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [peer], "ports": ports}], "egress": [{"to": [peer], "ports": ports}]})
}

/// This many pods with distinct labels, and policies that all of them share.
fn shared(judgement: &mut PolicyRules, pods: u32, policies: u32) {
    for number in 0..pods {
        let name = format!("p{number}");
        let v4 = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 244, 1, 0)) + number);
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, number as u16);
        let labels = json!({"app": format!("a{}", number % 500), "name": name});
        stage_pod(&mut judgement.index, &name, &labels, &[v4.into(), v6.into()]);
    }
    for number in 0..policies {
        stage_policy(
            &mut judgement.index,
            &format!("n{number}"),
            Some(&shared_policy(number, 1000 + number)),
        );
    }
}

/// NET-8: of a thousand policies that every pod shares, adding, changing or removing one rewrites few rules.
#[test]
fn one_policy_of_a_thousand_is_few_rules_net_8() {
    const POLICIES: u32 = 1000;
    let [whole, parts] = [usize::MAX, MAX_RULES].map(|most| {
        let (mut judgement, mut tables) = (in_parts_of(most), Tables::default());
        shared(&mut judgement, 10, POLICIES);
        let wishes = judgement.commit(&BOTH);
        let first = tables.apply(wishes);
        let mut most = WriteCounts::default();
        for number in 0..6 {
            let name = format!("n{}", number * 37);
            for spec in [Some(9000), None, Some(1000)] {
                let spec = spec.map(|port| shared_policy(number * 37, port + number));
                stage_policy(&mut judgement.index, &name, spec.as_ref());
                let wishes = judgement.commit(&BOTH);
                let written = tables.apply(wishes);
                assert!(written.rules > 0, "{name}");
                most.rules = most.rules.max(written.rules);
                most.chains = most.chains.max(written.chains);
                most.bytes = most.bytes.max(written.bytes);
            }
        }
        (first, most)
    });
    // Two directions in two families: one chain each, and beside it at most a part that is split, or two that are
    // merged.
    println!("whole: all {:?}, one {:?}; parts: all {:?}, one {:?}", whole.0, whole.1, parts.0, parts.1);
    assert!(whole.1.rules > 1800 && whole.1.rules == whole.0.rules, "{whole:?}");
    assert!(parts.1.chains <= 4 * 3, "{parts:?}");
    assert!(parts.1.rules <= 4 * (MAX_RULES + 1 + 20), "{parts:?}");
    assert!(parts.1.bytes * 4 < whole.1.bytes, "{parts:?} {whole:?}");
    // The parts themselves cost little.
    assert!(parts.0.rules < whole.0.rules + 4 * 20, "{parts:?}");
}

/// Runs in a new fabric, on a new thread; skipped if this user may not create a fabric beside other threads.
fn in_a_fabric(run: impl FnOnce(&PreflightFabric) + Send + 'static) {
    let tried = std::thread::spawn(|| {
        let trial = PreflightFabric::start();
        match trial {
            Ok(trial) => run(&trial),
            // tests/it/fabric runs the same in a process with one thread.
            Err(error) if !rustix::process::geteuid().is_root() => println!("no fabric: {error}"),
            Err(error) => panic!("no fabric: {error}"),
        }
    });
    if let Err(panic) = tried.join() {
        std::panic::resume_unwind(panic);
    }
}

/// NET-8: the kernel takes chains in parts while any of the parts are added, changed and removed, also from an instance
/// that was restarted; a rule of a part accepts its peers and no others.
#[test]
fn the_kernel_takes_a_long_chain_in_parts_net_8() {
    in_a_fabric(|trial| {
        const POLICIES: u32 = 400;
        let families = vec![Family::V4];
        let judge = |client: &str| {
            let mut judgement = in_parts_of(MAX_RULES);
            shared(&mut judgement, 0, POLICIES);
            let app = |app: &str| json!({"app": app});
            stage_pod(&mut judgement.index, "server", &app("server"), &[SERVER.into()]);
            stage_pod(&mut judgement.index, "client", &app(client), &[CLIENT.into()]);
            judgement
        };
        let friends = |app: &str| {
            let peer = json!({"podSelector": {"matchLabels": {"app": app}}});
            json!({"podSelector": {}, "ingress": [{"from": [peer], "ports": [{"port": 8080}]}],
                "policyTypes": ["Ingress", "Egress"], "egress": [{"to": [{"podSelector": {}}]}]})
        };
        let server = SocketAddr::from((SERVER, 8080));
        let connects = || trial.connects(server, server, false).is_ok();
        let kernel = || {
            let base = base(&families, &[LEAVES.into()], None);
            Kernel::new(trial.nft().unwrap(), families.clone(), base)
        };
        let tables = || trial.nft().unwrap().tables(Family::V4).unwrap();

        let (mut judgement, mut first) = (judge("friend"), kernel());
        assert!(connects(), "before any rule");
        first.apply(judgement.commit(&families)).unwrap();
        let there = tables();
        assert!(!connects());
        let mut change = |policies: &[(String, Option<Value>)]| {
            for (name, spec) in policies {
                stage_policy(&mut judgement.index, name, spec.as_ref());
            }
            first.apply(judgement.commit(&families)).unwrap();
            assert!(!first.has_refused());
            assert_eq!(tables(), there, "they are changed, not written anew");
        };
        change(&[("friends".to_owned(), Some(friends("friend")))]);
        assert!(connects(), "a rule comes into a part");
        change(&[("friends".to_owned(), Some(friends("stranger")))]);
        assert!(!connects(), "it becomes another");
        change(&[("friends".to_owned(), Some(friends("friend")))]);
        for number in 0..20 {
            change(&[(format!("n{number}"), Some(shared_policy(number, 9000)))]);
        }
        assert!(connects(), "others change");
        // Enough policies that each part changes, and then so few that there are no parts.
        let all = |change: &dyn Fn(u32) -> Option<Value>| {
            let of = |number: u32| (format!("n{number}"), change(number));
            (10..POLICIES).map(of).collect::<Vec<_>>()
        };
        change(&all(&|number| Some(shared_policy(number + 400, 5000))));
        assert!(connects(), "all change");
        change(&all(&|_| None));
        assert!(connects(), "none is in a part");
        change(&all(&|number| Some(shared_policy(number, 7000))));
        assert!(connects(), "they are again");

        // A new instance starts without any knowledge of the existing tables.
        let (mut judgement, mut second) = (judge("friend"), kernel());
        stage_policy(&mut judgement.index, "friends", Some(&friends("friend")));
        second.apply(judgement.commit(&families)).unwrap();
        assert_ne!(tables(), there);
        assert_eq!(tables().len(), there.len());
        assert!(connects(), "another control plane");
        stage_policy(&mut judgement.index, "friends", None);
        second.apply(judgement.commit(&families)).unwrap();
        assert!(!second.has_refused());
        assert!(!connects(), "a rule goes");
    });
}
