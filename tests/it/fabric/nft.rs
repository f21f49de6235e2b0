//! nftables as values: the kernel has the rules as written, and packets are handled accordingly (NET-6).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use fabric::conntrack::{Conntrack, Flow};
use fabric::nft::{
    BaseChain, Batch, Element, Family, Field, Hook, Key, Kind, Nft, Reject, Rule, Set, Statement, Table,
    TimedElement, Verdict,
};
use fabric::{SocketKind, SocketSpec};

use super::traffic::{SILENCE_TIMEOUT, accept_all};
use super::{FabricProcess, User, users};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The chain before routing, where addresses are changed.
const TRANSLATE: BaseChain = BaseChain { kind: Kind::Nat, hook: Hook::PreRouting, priority: -100 };
/// The chain of packets between leaves.
const FORWARD: BaseChain = BaseChain { kind: Kind::Filter, hook: Hook::Forward, priority: 0 };

/// A fabric with leaves, and a table of IPv4 in it that a test fills.
struct NftFixture {
    running: FabricProcess,
    nft: Nft,
    table: Table,
}

impl NftFixture {
    fn start(user: User, leaves: u8) -> Self {
        let running = FabricProcess::with_leaves(user, leaves).unwrap();
        (1..=leaves).for_each(|number| running.until_up(&format!("l{number}")));
        let nft = Nft::new(running.fabric.socket(&SocketSpec::new(SocketKind::Netfilter)).unwrap()).unwrap();
        Self { running, nft, table: Table { family: Family::V4, name: "tried".to_owned() } }
    }

    /// Removes the previous rules and writes these: sets with elements, chains, then a base chain with rules.
    fn write(&self, base: BaseChain, rules: &[Rule], fill: impl FnOnce(&mut Batch, &Table)) {
        let mut batch = Batch::new();
        batch.add_table(&self.table);
        batch.delete_table(&self.table);
        batch.add_table(&self.table);
        fill(&mut batch, &self.table);
        batch.add_chain(&self.table, "base", Some(base));
        for rule in rules {
            batch.add_rule(&self.table, "base", rule);
        }
        self.nft.commit(&batch).unwrap();
    }

    fn rules(&self, base: BaseChain, rules: &[Rule]) {
        self.write(base, rules, |_, _| {});
    }
}

fn to_port(protocol: u8, port: u16) -> Statement {
    Statement::Is(vec![Field::Protocol, Field::DestinationPort], Key::new().protocol(protocol).port(port))
}

fn from(ip: &str) -> Statement {
    Statement::Is(vec![Field::SourceAddress], key(ip))
}

fn key(ip: &str) -> Key {
    Key::new().ip(ip.parse().unwrap())
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// Accepts a connection that has already been made, and returns its source.
fn accepted(listener: &TcpListener) -> IpAddr {
    listener.accept().unwrap().1.ip()
}

/// NET-6: each kind of set, chain and part of a rule has the intended form in nft's output.
#[test]
fn sets_chains_and_rules_match_the_output_of_nft_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 1);
        let mut batch = Batch::new();
        for family in [Family::V4, Family::V6] {
            let table = Table { family, name: "tried".to_owned() };
            let ips = if family == Family::V4 {
                ["10.0.0.0", "10.0.0.255", "192.0.2.1", "192.0.2.2"]
            } else {
                ["fd00::", "fd00::ff", "2001:db8::1", "2001:db8::2"]
            };
            let [first, last, one, two] = ips.map(key);
            let target = |number: usize, port| SocketAddr::new(ips[number].parse().unwrap(), port);
            batch.add_table(&table);
            let source = || vec![Field::SourceAddress];
            let place = || vec![Field::DestinationAddress, Field::Protocol, Field::DestinationPort];
            let sets = [
                Set::new("plain", &source()),
                Set::new("ranges", &source()).of_intervals(),
                Set::new("pairs", &[Field::SourceAddress, Field::DestinationAddress]).of_intervals(),
                Set::new("places", &place()).of_verdicts(),
                Set::new("seen", &source()).forgetting(Duration::from_secs(90)),
                Set::new("numbers", &source()).of_numbers(),
                Set::new("verdicts", &[Field::Mark]).of_verdicts(),
            ];
            for set in &sets {
                batch.add_set(&table, set);
            }
            for chain in ["leaf", "rules"] {
                batch.add_chain(&table, chain, None);
            }
            batch.add_elements(&table, &sets[0], &[Element::new(one.clone()), Element::new(two.clone())]);
            batch.delete_elements(&table, &sets[0], &[Element::new(two.clone())]);
            batch.add_elements(&table, &sets[1], &[Element::range(first.clone(), last.clone())]);
            let pair =
                |first: &str, second: &str| Key::new().ip(first.parse().unwrap()).ip(second.parse().unwrap());
            let pair = Element::range(pair(ips[0], ips[2]), pair(ips[1], ips[2]));
            batch.add_elements(&table, &sets[2], &[pair]);
            let address: IpAddr = ips[2].parse().unwrap();
            let place_of = |protocol| Element::new(Key::new().ip(address).protocol(protocol).port(80));
            let places =
                [place_of(TCP).to(Verdict::Goto("leaf".to_owned())), place_of(UDP).to(Verdict::Drop)];
            batch.add_elements(&table, &sets[3], &places);
            batch.add_elements(&table, &sets[5], &[Element::new(one.clone()).to_number(7)]);
            let seven = Element::new(Key::new().number(7)).to(Verdict::Jump("leaf".to_owned()));
            batch.add_elements(&table, &sets[6], &[seven]);
            let rules: Vec<Rule> = vec![
                vec![Statement::Is(source(), one.clone()), Statement::Verdict(Verdict::Accept)],
                vec![Statement::IsNot(source(), one.clone()), Statement::Verdict(Verdict::Return)],
                vec![Statement::In(source(), "plain".into()), Statement::Verdict(Verdict::Drop)],
                vec![
                    Statement::NotIn(source(), "ranges".into()),
                    Statement::Verdict(Verdict::Jump("leaf".into())),
                ],
                vec![Statement::HasBits(Field::ConnectionState, 6), Statement::Verdict(Verdict::Accept)],
                vec![Statement::HasBits(Field::ConnectionStatus, 32), Statement::Verdict(Verdict::Accept)],
                vec![
                    Statement::Is(vec![Field::Mark], Key::new().number(7)),
                    Statement::Verdict(Verdict::Drop),
                ],
                vec![
                    Statement::Is(vec![Field::Protocol], Key::new().protocol(TCP)),
                    Statement::Reject(Reject::Reset),
                ],
                vec![Statement::Reject(Reject::PortUnreachable)],
                vec![Statement::Reject(Reject::Prohibited)],
                vec![Statement::Dispatch(place(), "places".into())],
                vec![Statement::VerdictAmong(vec![Verdict::Drop, Verdict::Goto("leaf".into())])],
                vec![Statement::BytesPerSecondOver(1_000_000), Statement::Verdict(Verdict::Drop)],
                vec![Statement::PerMilleOfPackets(100), Statement::Verdict(Verdict::Drop)],
                vec![Statement::Remember(source(), "seen".into())],
                vec![Statement::SetMark(5)],
            ];
            for rule in &rules {
                batch.add_rule(&table, "rules", rule);
            }
            let filter = BaseChain { kind: Kind::Filter, hook: Hook::PreRouting, priority: -150 };
            let bases: [(&str, BaseChain, Vec<Rule>); 4] = [
                (
                    "pre",
                    TRANSLATE,
                    vec![
                        vec![to_port(TCP, 80), Statement::DnatAmong(vec![target(2, 8080), target(3, 8081)])],
                        vec![to_port(TCP, 81), Statement::Dnat(target(2, 8080))],
                    ],
                ),
                (
                    "post",
                    BaseChain { hook: Hook::PostRouting, priority: 100, ..TRANSLATE },
                    vec![vec![
                        Statement::In(vec![Field::SourceAddress, Field::DestinationAddress], "pairs".into()),
                        Statement::Masquerade,
                    ]],
                ),
                (
                    "raw",
                    BaseChain { priority: -300, ..filter },
                    vec![vec![to_port(UDP, 9), Statement::NoTrack]],
                ),
                (
                    "out",
                    filter,
                    vec![
                        vec![
                            Statement::OfTransparentSocket,
                            Statement::SetMark(1),
                            Statement::Verdict(Verdict::Accept),
                        ],
                        vec![
                            Statement::Is(vec![Field::Protocol], Key::new().protocol(TCP)),
                            Statement::Tproxy(target(2, 15001)),
                        ],
                    ],
                ),
            ];
            for (name, base, rules) in &bases {
                batch.add_chain(&table, name, Some(*base));
                for rule in rules {
                    batch.add_rule(&table, name, rule);
                }
            }
        }
        written.nft.commit(&batch).unwrap();
        assert_eq!(written.nft.tables(Family::V6).unwrap().len(), 1);
        let Some(listing) = written.running.listing() else { continue };
        let lines: Vec<&str> = listing.lines().map(str::trim).collect();
        for (family, ip, icmp, [range, one, two]) in [
            ("ip", "ipv4_addr", ("icmp", 13), ["10.0.0.0/24", "192.0.2.1", "192.0.2.2"]),
            ("ip6", "ipv6_addr", ("icmpv6", 1), ["fd00::/120", "2001:db8::1", "2001:db8::2"]),
        ] {
            let begin = lines.iter().position(|line| *line == format!("table {family} tried {{")).unwrap();
            let after = &lines[begin + 1..];
            let length = after.iter().position(|line| line.starts_with("table ")).unwrap_or(after.len());
            let own = after[..length].join("\n");
            let (icmp, code) = icmp;
            let one_at = if family == "ip" { one.to_owned() } else { format!("[{one}]") };
            // `nft` reads numbers in maps as in network byte order, unless a comment of its own says otherwise.
            let seven = format!("{:#010x}", 7_u32.to_be());
            for expected in [
                format!("set plain {{\ntype {ip}\nelements = {{ {one} }}\n}}"),
                format!("set ranges {{\ntype {ip}\nflags interval\nelements = {{ {range} }}\n}}"),
                format!("type {ip} . {ip}\nflags interval\nelements = {{ {range} . {one} }}\n}}"),
                format!("map places {{\ntype {ip} . inet_proto . inet_service : verdict\n"),
                format!("{one} . 6 . 80 : goto leaf"),
                format!("{one} . 17 . 80 : drop"),
                format!("set seen {{\ntype {ip}\nsize 65535\nflags dynamic,timeout\ntimeout 90s\n}}"),
                format!("{family} saddr {one} accept"),
                format!("{family} saddr != {one} return"),
                format!("{family} saddr @plain drop"),
                format!("{family} saddr != @ranges jump leaf"),
                "ct state 0x2,0x4 accept".to_owned(),
                "ct status 0x20 accept".to_owned(),
                "meta mark 0x00000007 drop".to_owned(),
                "meta l4proto 6 reject with tcp reset".to_owned(),
                "\nreject\n".to_owned(),
                format!("reject with {icmp} {code}"),
                format!("{family} daddr . meta l4proto . th dport vmap @places"),
                format!("map numbers {{\ntype {ip} : mark\nelements = {{ {one} : {seven} }}"),
                format!("map verdicts {{\ntype mark : verdict\nelements = {{ {seven} : jump leaf }}"),
                "numgen inc mod 2 vmap { 0 : drop, 1 : goto leaf }".to_owned(),
                "limit rate over 1000000 bytes/second burst 100000 bytes drop".to_owned(),
                "numgen random mod 1000 < 100 drop".to_owned(),
                format!("update @seen {{ {family} saddr }}"),
                "meta mark set 0x00000005".to_owned(),
                "chain pre {\ntype nat hook prerouting priority -100; policy accept;".to_owned(),
                format!("dnat {family} to numgen inc mod 2 map {{ 0 : {one} . 8080, 1 : {two} . 8081 }}"),
                format!("th dport 6 . 81 dnat to {one_at}:8080"),
                "type nat hook postrouting priority 100; policy accept;".to_owned(),
                format!("{family} saddr . {family} daddr @pairs masquerade"),
                "type filter hook prerouting priority -300; policy accept;".to_owned(),
                "th dport 17 . 9 notrack".to_owned(),
                "socket transparent 1 meta mark set 0x00000001 accept".to_owned(),
                format!("meta l4proto 6 tproxy to {one_at}:15001"),
            ] {
                assert!(own.contains(&expected), "{expected}\n\n{own}");
            }
        }
    }
}

/// NET-6: the elements of a set are copied into another one with their remaining time, limited to the timeout of that
/// one.
#[test]
fn set_elements_are_copied_with_their_remaining_timeout_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 1);
        let (long, short) = (Duration::from_mins(10), Duration::from_mins(1));
        for (family, ips) in
            [(Family::V4, ["192.0.2.1", "192.0.2.2"]), (Family::V6, ["2001:db8::1", "2001:db8::2"])]
        {
            let table = Table { family, name: "tried".to_owned() };
            let seen = Set::new("seen", &[Field::SourceAddress]).forgetting(long);
            let less = Set::new("less", &[Field::SourceAddress]).forgetting(short);
            let mut batch = Batch::new();
            batch.add_table(&table);
            for set in [&seen, &less, &Set::new("plain", &[Field::SourceAddress])] {
                batch.add_set(&table, set);
            }
            let left = Duration::from_mins(5);
            let all = ips.map(|ip| TimedElement { key: key(ip), expires: left });
            batch.add_remembered(&table, &seen, &all);
            batch.add_remembered(&table, &less, &all[..1]);
            written.nft.commit(&batch).unwrap();
            let sets = written.nft.sets(&table).unwrap();
            let forget = sets.iter().filter(|set| set.forgets).map(|set| set.name.as_str());
            assert_eq!(forget.collect::<Vec<_>>(), ["seen", "less"], "as {user:?}");
            let mut found = written.nft.remembered(&table, "seen").unwrap();
            found.sort_by(|one, two| one.key.cmp(&two.key));
            assert_eq!(found.iter().map(|one| one.key.clone()).collect::<Vec<_>>(), ips.map(key));
            assert!(found.iter().all(|one| one.expires <= left && one.expires > short), "{found:?}");
            let found = written.nft.remembered(&table, "less").unwrap();
            assert!(found.len() == 1 && found[0].expires <= short, "{found:?}");
        }
    }
}

/// NET-6: connections go to one of several in turn, from the client's own address, and to themselves from another.
#[test]
fn connections_go_round_and_come_from_their_client_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 3);
        let listeners = ["l1", "l2"].map(|leaf| written.running.listen(leaf, "0.0.0.0:80"));
        let among = vec![at("10.244.1.1:80"), at("10.244.1.2:80")];
        written.write(TRANSLATE, &[vec![to_port(TCP, 8080), Statement::DnatAmong(among)]], |batch, table| {
            let hairpin = Set::new("hairpin", &[Field::SourceAddress, Field::DestinationAddress]);
            batch.add_set(table, &hairpin);
            let own = Key::new().ip([10, 244, 1, 1].into()).ip([10, 244, 1, 1].into());
            batch.add_elements(table, &hairpin, &[Element::new(own)]);
            batch.add_chain(
                table,
                "post",
                Some(BaseChain { hook: Hook::PostRouting, priority: 100, ..TRANSLATE }),
            );
            batch.add_rule(
                table,
                "post",
                &vec![
                    Statement::HasBits(Field::ConnectionStatus, 32),
                    Statement::In(vec![Field::SourceAddress, Field::DestinationAddress], "hairpin".into()),
                    Statement::Masquerade,
                ],
            );
        });
        let open: Vec<_> = (0..10).map(|_| written.running.answer("l3", "10.96.0.1:8080").unwrap()).collect();
        assert_eq!(accepted(&listeners[0]).to_string(), "10.244.1.3");
        assert_eq!(accepted(&listeners[1]).to_string(), "10.244.1.3");
        assert_eq!(listeners.each_ref().map(accept_all), [4, 4], "each its half of ten");
        drop(open);

        written.rules(TRANSLATE, &[vec![to_port(TCP, 8080), Statement::Dnat(at("10.244.1.2:80"))]]);
        let unreachable = written.running.answer("l3", "10.96.0.1:8081").err();
        assert_eq!(unreachable, Some(ErrorKind::NetworkUnreachable));
        let _open = written.running.answer("l3", "10.96.0.1:8080").unwrap();
        assert_eq!(listeners.each_ref().map(accept_all), [0, 1]);
    }
}

/// NET-6: a leaf that reaches itself through a service gets the fabric's address as its source, or the response would
/// never come back.
#[test]
fn a_leaf_reaches_itself_through_a_service_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 2);
        let listener = written.running.listen("l1", "0.0.0.0:80");
        let rule = vec![to_port(TCP, 8080), Statement::Dnat(at("10.244.1.1:80"))];
        written.rules(TRANSLATE, std::slice::from_ref(&rule));
        assert_eq!(written.running.refused("l1", "10.96.0.1:8080"), Some(ErrorKind::TimedOut));
        accept_all(&listener);
        written.write(TRANSLATE, &[rule], |batch, table| {
            let post = BaseChain { hook: Hook::PostRouting, priority: 100, ..TRANSLATE };
            batch.add_chain(table, "post", Some(post));
            let translated = Statement::HasBits(Field::ConnectionStatus, 32);
            batch.add_rule(table, "post", &vec![from("10.244.1.1"), translated, Statement::Masquerade]);
        });
        let _open = written.running.answer("l1", "10.96.0.1:8080").unwrap();
        assert_eq!(accepted(&listener).to_string(), "169.254.1.1");
        // Another leaf's connection through the same service keeps its source address.
        let _other = written.running.answer("l2", "10.96.0.1:8080").unwrap();
        assert_eq!(accepted(&listener).to_string(), "10.244.1.2");
    }
}

/// A case: its name, the rules, and the outcomes of two connections.
type ConnectionCase<'a> = (&'a str, Vec<Rule>, [Option<ErrorKind>; 2]);

/// NET-6: the effect of each part of a rule on a connection between leaves.
#[test]
fn packets_fare_as_the_rules_say_net_6() {
    let by_source = || vec![Field::SourceAddress];
    let tcp = || Statement::Is(vec![Field::Protocol], Key::new().protocol(TCP));
    let drop = || Statement::Verdict(Verdict::Drop);
    let pair = || vec![Field::SourceAddress, Field::DestinationAddress];
    let silent = Some(ErrorKind::TimedOut);
    let refused = Some(ErrorKind::ConnectionRefused);
    // The rules, and the outcomes of connections of l2 and of l3 to l1.
    let cases: Vec<ConnectionCase<'_>> = vec![
        // This case is the first: without rules about states, the kernel tracks no connections, and the last packets of
        // a connection that it did not track count as the first ones of another.
        (
            "in turn",
            vec![vec![
                Statement::HasBits(Field::ConnectionState, 8),
                Statement::VerdictAmong(vec![Verdict::Accept, Verdict::Goto("refuses".into())]),
            ]],
            [None, refused],
        ),
        ("nothing", vec![], [None, None]),
        ("is", vec![vec![from("10.244.1.2"), drop()]], [silent, None]),
        ("is not", vec![vec![Statement::IsNot(by_source(), key("10.244.1.1")), drop()]], [silent, silent]),
        (
            "accept ends",
            vec![
                vec![from("10.244.1.2"), Statement::Verdict(Verdict::Accept)],
                vec![from("10.244.1.2"), drop()],
            ],
            [None, None],
        ),
        ("reset", vec![vec![from("10.244.1.2"), tcp(), Statement::Reject(Reject::Reset)]], [refused, None]),
        (
            "unreachable",
            vec![vec![from("10.244.1.3"), Statement::Reject(Reject::PortUnreachable)]],
            [None, refused],
        ),
        (
            "prohibited",
            vec![vec![from("10.244.1.3"), Statement::Reject(Reject::Prohibited)]],
            [None, Some(ErrorKind::HostUnreachable)],
        ),
        ("in a range", vec![vec![Statement::In(by_source(), "ranges".into()), drop()]], [silent, None]),
        (
            "not in a range",
            vec![vec![
                Statement::Is(vec![Field::DestinationAddress], key("10.244.1.1")),
                Statement::NotIn(by_source(), "ranges".into()),
                drop(),
            ]],
            [None, silent],
        ),
        ("in ranges of pairs", vec![vec![Statement::In(pair(), "pairs".into()), drop()]], [None, silent]),
        (
            "the verdict of a map",
            vec![vec![Statement::Dispatch(by_source(), "says".into())]],
            [silent, refused],
        ),
        (
            "jump comes back",
            vec![vec![Statement::Verdict(Verdict::Jump("back".into()))], vec![from("10.244.1.3"), drop()]],
            [None, silent],
        ),
        (
            "goto does not",
            vec![vec![Statement::Verdict(Verdict::Goto("back".into()))], vec![from("10.244.1.3"), drop()]],
            [None, None],
        ),
        (
            "always by chance",
            vec![vec![from("10.244.1.2"), Statement::PerMilleOfPackets(1000), drop()]],
            [silent, None],
        ),
        ("never by chance", vec![vec![Statement::PerMilleOfPackets(0), drop()]], [None, None]),
        (
            "a mark",
            vec![
                vec![from("10.244.1.2"), Statement::SetMark(7)],
                vec![Statement::Is(vec![Field::Mark], Key::new().number(7)), drop()],
            ],
            [silent, None],
        ),
        (
            "begins",
            vec![vec![from("10.244.1.2"), Statement::HasBits(Field::ConnectionState, 8), drop()]],
            [silent, None],
        ),
        (
            "goes on",
            vec![vec![from("10.244.1.1"), Statement::HasBits(Field::ConnectionState, 2), drop()]],
            [silent, silent],
        ),
        ("not too many", vec![vec![Statement::BytesPerSecondOver(1_000_000), drop()]], [None, None]),
    ];
    for user in users() {
        let written = NftFixture::start(user, 3);
        let listener = written.running.listen("l1", "0.0.0.0:80");
        for (name, rules, expected) in &cases {
            written.write(FORWARD, rules, |batch, table| {
                let ranges = Set::new("ranges", &by_source()).of_intervals();
                let pairs = Set::new("pairs", &pair()).of_intervals();
                let says = Set::new("says", &by_source()).of_verdicts();
                for set in [&ranges, &pairs, &says] {
                    batch.add_set(table, set);
                }
                for chain in ["back", "refuses"] {
                    batch.add_chain(table, chain, None);
                }
                batch.add_rule(table, "back", &vec![from("10.244.1.2"), Statement::Verdict(Verdict::Return)]);
                batch.add_rule(table, "refuses", &vec![tcp(), Statement::Reject(Reject::Reset)]);
                let range = |first: &str, last: &str| Element::range(key(first), key(last));
                batch.add_elements(
                    table,
                    &ranges,
                    &[range("10.0.0.0", "10.0.0.255"), range("10.244.1.2", "10.244.1.2")],
                );
                let both = |from: [u8; 4], to: [u8; 4]| Key::new().ip(from.into()).ip(to.into());
                let all = Element::range(
                    both([10, 244, 1, 3], [10, 244, 0, 0]),
                    both([10, 244, 1, 9], [10, 244, 255, 255]),
                );
                batch.add_elements(table, &pairs, &[all]);
                batch.add_elements(
                    table,
                    &says,
                    &[
                        Element::new(key("10.244.1.2")).to(Verdict::Drop),
                        Element::new(key("10.244.1.3")).to(Verdict::Goto("refuses".into())),
                    ],
                );
            });
            for (leaf, expected) in ["l2", "l3"].into_iter().zip(*expected) {
                let to = "10.244.1.1:80";
                let became = if expected == silent {
                    written.running.outcome(leaf, to)
                } else {
                    written.running.answer(leaf, to)
                };
                assert_eq!(became.err(), expected, "{name} from {leaf}, {user:?}");
            }
            accept_all(&listener);
        }
    }
}

/// NET-6: rules remember clients, for as long as configured.
#[test]
fn rules_remember_who_came_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 3);
        let _listener = written.running.listen("l1", "0.0.0.0:80");
        let source = || vec![Field::SourceAddress];
        // A client that connected to port 9 may not connect to port 80.
        let rules = [
            vec![to_port(TCP, 9), Statement::Remember(source(), "seen".into())],
            vec![to_port(TCP, 80), Statement::In(source(), "seen".into()), Statement::Verdict(Verdict::Drop)],
        ];
        let remember_for = |time: Duration| {
            written.write(FORWARD, &rules, |batch, table| {
                batch.add_set(table, &Set::new("seen", &source()).forgetting(time));
            });
        };
        let answer = |leaf: &str, to: &str| written.running.answer(leaf, to).err();
        remember_for(Duration::from_hours(1));
        assert_eq!(answer("l2", "10.244.1.1:80"), None);
        assert_eq!(answer("l2", "10.244.1.1:9"), Some(ErrorKind::ConnectionRefused));
        assert_eq!(written.running.refused("l2", "10.244.1.1:80"), Some(ErrorKind::TimedOut));
        assert_eq!(answer("l3", "10.244.1.1:80"), None);
        assert_eq!(written.nft.remembered(&written.table, "seen").unwrap().len(), 1);

        remember_for(Duration::from_secs(1));
        assert_eq!(answer("l2", "10.244.1.1:9"), Some(ErrorKind::ConnectionRefused));
        crate::instance::wait_for("the end of what was remembered", || {
            written.nft.remembered(&written.table, "seen").unwrap().is_empty().then_some(())
        });
        assert_eq!(answer("l2", "10.244.1.1:80"), None);
    }
}

/// NET-6: packets without a connection are not redirected; a rate is enforced; packets that leave are received by their
/// listener.
#[test]
fn datagrams_are_left_alone_held_back_and_taken_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 2);
        let (server, client) = (
            written.running.datagrams("l1", "10.244.1.1:53"),
            written.running.datagrams("l2", "10.244.1.2:0"),
        );
        let mut bytes = [0; 2048];
        let to_server = vec![to_port(UDP, 5353), Statement::Dnat(at("10.244.1.1:53"))];
        written.rules(TRANSLATE, std::slice::from_ref(&to_server));
        client.send_to(b"a", "10.96.0.1:5353").unwrap();
        let (_, who) = server.recv_from(&mut bytes).unwrap();
        assert_eq!(who, client.local_addr().unwrap());
        server.send_to(b"b", who).unwrap();
        assert_eq!(
            client.recv_from(&mut bytes).unwrap().1,
            at("10.96.0.1:5353"),
            "the answer is the service's"
        );

        let other = written.running.datagrams("l2", "10.244.1.2:0");
        written.write(TRANSLATE, &[to_server], |batch, table| {
            let raw = BaseChain { kind: Kind::Filter, hook: Hook::PreRouting, priority: -300 };
            batch.add_chain(table, "raw", Some(raw));
            batch.add_rule(table, "raw", &vec![to_port(UDP, 5353), Statement::NoTrack]);
        });
        other.send_to(b"c", "10.96.0.1:5353").unwrap();
        server.set_read_timeout(Some(SILENCE_TIMEOUT)).unwrap();
        assert!(server.recv_from(&mut bytes).is_err(), "the destination is not translated");

        written
            .rules(FORWARD, &[vec![Statement::BytesPerSecondOver(1000), Statement::Verdict(Verdict::Drop)]]);
        let many = written.running.datagrams("l2", "10.244.1.2:0");
        for _ in 0..60 {
            many.send_to(&[0; 1400], "10.244.1.1:53").unwrap();
        }
        let came = std::iter::from_fn(|| server.recv_from(&mut bytes).ok()).count();
        assert!((5..40).contains(&came), "one burst of 20 kB, and hardly more: {came}");
    }
}

/// NET-6: a flow of datagrams stays with its endpoint until conntrack forgets it, and then follows the rules.
#[test]
fn a_flow_of_datagrams_follows_new_rules_once_conntrack_forgets_it_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 4);
        let [first, second] =
            ["1", "2"].map(|n| written.running.datagrams(&format!("l{n}"), &format!("10.244.1.{n}:53")));
        let clients =
            ["3", "4"].map(|n| written.running.datagrams(&format!("l{n}"), &format!("10.244.1.{n}:0")));
        let mut bytes = [0; 16];
        let to = |address: &str| {
            written.rules(TRANSLATE, &[vec![to_port(UDP, 5353), Statement::Dnat(at(address))]]);
        };
        to("10.244.1.1:53");
        let ask = |client: &UdpSocket| assert_eq!(client.send_to(b"?", "10.96.0.1:5353").unwrap(), 1);
        clients.iter().for_each(ask);
        for _ in 0..2 {
            first.recv_from(&mut bytes).unwrap();
        }
        to("10.244.1.2:53");
        clients.iter().for_each(ask);
        for _ in 0..2 {
            first.recv_from(&mut bytes).unwrap();
        }

        let socket = written.running.fabric.socket(&SocketSpec::new(SocketKind::Netfilter)).unwrap();
        let conntrack = Conntrack::new(socket);
        let own = clients[0].local_addr().unwrap();
        let flow = Flow { client: own, destination: at("10.96.0.1:5353"), endpoint: at("10.244.1.1:53") };
        let mut seen = Vec::new();
        let forgotten = conntrack.forget_udp(Family::V4, |known| {
            seen.push(*known);
            *known == flow
        });
        assert_eq!(forgotten.unwrap(), 1, "{seen:?}");
        assert_eq!(seen.len(), 2, "{seen:?}");
        clients.iter().for_each(ask);
        assert_eq!(second.recv_from(&mut bytes).unwrap().1, own);
        assert_eq!(
            first.recv_from(&mut bytes).unwrap().1,
            clients[1].local_addr().unwrap(),
            "the other one stays"
        );
        assert_eq!(conntrack.forget_udp(Family::V4, |known| *known == flow).unwrap(), 0);
        assert_eq!(conntrack.forget_udp(Family::V6, |_| true).unwrap(), 0);
    }
}

/// NET-6: a transparent listener in the fabric receives packets to the world, and its sockets' responses are let in.
#[test]
fn a_transparent_listener_in_the_fabric_accepts_connections_to_the_world_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 1);
        let spec = SocketSpec {
            transparent: true,
            bind: "127.0.0.1:15001".parse().ok(),
            listen: Some(8),
            ..SocketSpec::new(SocketKind::TcpV4)
        };
        let listener = TcpListener::from(written.running.fabric.socket(&spec).unwrap());
        listener.set_nonblocking(false).unwrap();
        let early = BaseChain { kind: Kind::Filter, hook: Hook::PreRouting, priority: -150 };
        let accept = || Statement::Verdict(Verdict::Accept);
        let tproxy = Statement::Tproxy(at("127.0.0.1:15001"));
        written.rules(
            early,
            &[
                vec![Statement::OfTransparentSocket, Statement::SetMark(1), accept()],
                vec![to_port(TCP, 443), tproxy, Statement::SetMark(1), accept()],
            ],
        );
        let open = written.running.answer("l1", "203.0.113.7:443").unwrap();
        let (taken, from) = listener.accept().unwrap();
        assert_eq!(from.ip().to_string(), "10.244.1.1", "{user:?}");
        assert_eq!(
            taken.local_addr().unwrap(),
            at("203.0.113.7:443"),
            "the local address is the original destination"
        );
        std::io::Write::write_all(&mut &taken, b"hello").unwrap();
        let mut received = [0; 5];
        std::io::Read::read_exact(&mut &open, &mut received).unwrap();
        assert_eq!(&received, b"hello");
    }
}

/// A function that fills a batch of changes of the table.
type Fill<'a> = &'a dyn Fn(&mut Batch, &Table);

/// NET-6: a batch is applied completely or not at all, an error names its step, and the next batch succeeds.
#[test]
fn a_batch_is_whole_or_nothing_and_says_which_step_failed_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 1);
        let none = Set::new("none", &[Field::SourceAddress]);
        let missing = |batch: &mut Batch, table: &Table| {
            batch.add_elements(table, &none, &[Element::new(key("10.0.0.1"))]);
        };
        let goto_missing = |batch: &mut Batch, table: &Table| {
            batch.add_rule(table, "rules", &vec![Statement::Verdict(Verdict::Goto("nowhere".into()))]);
        };
        let circle = |batch: &mut Batch, table: &Table| {
            batch.add_chain(table, "base", Some(FORWARD));
            batch.add_rule(table, "base", &vec![Statement::Verdict(Verdict::Goto("rules".into()))]);
            batch.add_rule(table, "rules", &vec![Statement::Verdict(Verdict::Goto("rules".into()))]);
        };
        let gone = |batch: &mut Batch, table: &Table| batch.delete_chain(table, "unknown");
        let cases: [(Fill<'_>, &str); 4] = [
            (&missing, "elements of set none: No such file or directory"),
            (&goto_missing, "rule of chain rules: No such file or directory"),
            (&circle, "rule of chain rules: Too many links"),
            (&gone, "delete chain unknown: No such file or directory"),
        ];
        for (fill, expected) in cases {
            let mut batch = Batch::new();
            batch.add_table(&written.table);
            batch.add_chain(&written.table, "rules", None);
            fill(&mut batch, &written.table);
            let error = written.nft.commit(&batch).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(written.nft.tables(Family::V4).unwrap(), [], "nothing of it stays");
        }
        let twice = Batch::new();
        written.nft.commit(&twice).unwrap();
    }
}

/// NET-6: changes that exceed one transaction are split into several, but never between a rule and its map.
#[test]
fn more_than_the_kernel_takes_at_once_goes_in_several_transactions_net_6() {
    for user in users() {
        let written = NftFixture::start(user, 2);
        let listener = written.running.listen("l1", "0.0.0.0:80");
        let long = |number: usize| format!("{number:0>120}");
        let number_of = |number: usize| Key::new().ip([10, 96, (number >> 8) as u8, number as u8].into());
        let mut batch = Batch::new();
        let table = &written.table;
        batch.add_table(table);
        let map = Set::new("services", &[Field::DestinationAddress]).of_verdicts();
        batch.add_set(table, &map);
        let chains = 3000;
        (0..chains).for_each(|number| batch.add_chain(table, &long(number), None));
        let among = || Statement::DnatAmong((0..250).map(|_| at("10.244.1.1:80")).collect());
        for number in 0..chains {
            let rule = vec![
                to_port(TCP, 80),
                if number % 2 == 0 { among() } else { Statement::Dnat(at("10.244.1.1:80")) },
            ];
            batch.add_rule(table, &long(number), &rule);
        }
        let many = Statement::DnatAmong((0..5000).map(|_| at("10.244.1.1:80")).collect());
        batch.add_chain(table, "thousands", None);
        batch.add_rule(table, "thousands", &vec![to_port(TCP, 81), many]);
        let elements: Vec<_> = (0..chains)
            .map(|number| Element::new(number_of(number)).to(Verdict::Goto(long(number))))
            .chain([Element::new(Key::new().ip([10, 97, 0, 0].into())).to(Verdict::Goto("thousands".into()))])
            .collect();
        batch.add_elements(table, &map, &elements);
        batch.add_chain(table, "base", Some(TRANSLATE));
        batch.add_rule(
            table,
            "base",
            &vec![Statement::Dispatch(vec![Field::DestinationAddress], "services".into())],
        );
        written.nft.commit(&batch).unwrap();
        assert!(
            batch.bytes() > 10 << 20,
            "more than a buffer of 4 MB that the kernel doubles: {}",
            batch.bytes()
        );
        for to in ["10.96.0.0:80", "10.96.11.183:80", "10.97.0.0:81"] {
            assert_eq!(written.running.answer("l2", to).err(), None, "{to}, {user:?}");
        }
        accept_all(&listener);
    }
}
