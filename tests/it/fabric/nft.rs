//! nftables as values: what is written is what the kernel has, and packets fare as it says (NET-6).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use fabric::nft::{
    Base, Batch, Element, Family, Field, Hook, Key, Kind, Nft, Part, Reject, Rule, Set, Table, Verdict,
};
use fabric::{SocketKind, SocketSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Running, User, users};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Before routing, where addresses are changed.
const TRANSLATE: Base = Base { kind: Kind::Nat, hook: Hook::PreRouting, priority: -100 };
/// Between leaves.
const FORWARD: Base = Base { kind: Kind::Filter, hook: Hook::Forward, priority: 0 };
/// How long something is waited for that does not come.
const NOTHING: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// A fabric with leaves, and a table of IPv4 in it that a test fills.
struct Written {
    running: Running,
    nft: Nft,
    table: Table,
}

impl Written {
    fn start(user: User, leaves: u8) -> Self {
        let running = Running::with_leaves(user, leaves).unwrap();
        let nft = Nft::new(running.fabric.socket(&SocketSpec::new(SocketKind::Netfilter)).unwrap()).unwrap();
        Self { running, nft, table: Table { family: Family::V4, name: "tried".to_owned() } }
    }

    /// Takes what was written back and writes this: sets with elements, chains, then a base chain with rules.
    fn write(&self, base: Base, rules: &[Rule], fill: impl FnOnce(&mut Batch, &Table)) {
        let mut batch = Batch::new();
        batch.add_table(&self.table);
        batch.delete_table(&self.table);
        batch.add_table(&self.table);
        fill(&mut batch, &self.table);
        batch.add_chain(&self.table, "base", Some(base));
        rules.iter().for_each(|rule| batch.add_rule(&self.table, "base", rule));
        self.nft.commit(&batch).unwrap();
    }

    fn rules(&self, base: Base, rules: &[Rule]) {
        self.write(base, rules, |_, _| {});
    }

    /// What becomes of a connection.
    fn outcome(&self, from: &str, to: &str) -> Result<TcpStream, ErrorKind> {
        let to: SocketAddr = to.parse().unwrap();
        let socket = self.running.fabric.socket(&SocketSpec::new(super::tcp(to)).in_leaf(from)).unwrap();
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(std::io::Error::from(error).kind()),
        }
        if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&NOTHING)).unwrap() == 0 {
            return Err(ErrorKind::TimedOut);
        }
        let stream = TcpStream::from(socket);
        match stream.take_error().unwrap() {
            Some(error) => Err(error.kind()),
            None => Ok(stream),
        }
    }

    fn refused(&self, from: &str, to: &str) -> Option<ErrorKind> {
        self.outcome(from, to).err()
    }

    /// A socket for datagrams that waits for a moment only.
    fn datagrams(&self, leaf: &str, bind: &str) -> UdpSocket {
        let spec =
            SocketSpec { bind: bind.parse().ok(), ..SocketSpec::new(SocketKind::UdpV4).in_leaf(leaf) };
        let socket = UdpSocket::from(self.running.fabric.socket(&spec).unwrap());
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket
    }

    /// What nft shows of the tables inside; none where it is not installed, which is told.
    fn listing(&self) -> Option<String> {
        let process = self.running.process.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &process, "-n", "nft", "-nn", "list", "ruleset"]);
        match command.output() {
            Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
            told => {
                eprintln!("not compared with nft: {told:?}");
                None
            }
        }
    }
}

fn to_port(protocol: u8, port: u16) -> Part {
    Part::Is(vec![Field::Protocol, Field::DestinationPort], Key::new().protocol(protocol).port(port))
}

fn from(ip: &str) -> Part {
    Part::Is(vec![Field::SourceAddress], key(ip))
}

fn key(ip: &str) -> Key {
    Key::new().ip(ip.parse().unwrap())
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// Who connected, waited for only where it has been.
fn accepted(listener: &TcpListener) -> IpAddr {
    listener.accept().unwrap().1.ip()
}

/// Takes what waits at a listener and tells how many.
fn drained(listener: &TcpListener) -> usize {
    listener.set_nonblocking(true).unwrap();
    let count = std::iter::from_fn(|| listener.accept().ok()).count();
    listener.set_nonblocking(false).unwrap();
    count
}

/// NET-6: each kind of set, chain and part of a rule is, in nft's own words, what was meant.
#[test]
fn what_is_written_is_what_the_kernel_has_net_6() {
    for user in users() {
        let written = Written::start(user, 1);
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
            ];
            sets.iter().for_each(|set| batch.add_set(&table, set));
            for chain in ["leaf", "rules"] {
                batch.add_chain(&table, chain, None);
            }
            batch.add_elements(&table, &sets[0], &[Element::new(one.clone()), Element::new(two.clone())]);
            batch.delete_elements(&table, &sets[0], &[Element::new(two.clone())]);
            batch.add_elements(&table, &sets[1], &[Element::range(first.clone(), last.clone())]);
            let pair = |first: &str, second: &str| {
                Key::new().ip(first.parse().unwrap()).ip(second.parse().unwrap())
            };
            let pair = Element::range(pair(ips[0], ips[2]), pair(ips[1], ips[2]));
            batch.add_elements(&table, &sets[2], &[pair]);
            let address: IpAddr = ips[2].parse().unwrap();
            let place_of = |protocol| Element::new(Key::new().ip(address).protocol(protocol).port(80));
            let places =
                [place_of(TCP).to(Verdict::Goto("leaf".to_owned())), place_of(UDP).to(Verdict::Drop)];
            batch.add_elements(&table, &sets[3], &places);
            let rules: Vec<Rule> = vec![
                vec![Part::Is(source(), one.clone()), Part::Verdict(Verdict::Accept)],
                vec![Part::IsNot(source(), one.clone()), Part::Verdict(Verdict::Return)],
                vec![Part::In(source(), "plain".into()), Part::Verdict(Verdict::Drop)],
                vec![Part::NotIn(source(), "ranges".into()), Part::Verdict(Verdict::Jump("leaf".into()))],
                vec![Part::HasBits(Field::ConnectionState, 6), Part::Verdict(Verdict::Accept)],
                vec![Part::HasBits(Field::ConnectionStatus, 32), Part::Verdict(Verdict::Accept)],
                vec![Part::Is(vec![Field::Mark], Key::new().number(7)), Part::Verdict(Verdict::Drop)],
                vec![Part::Is(vec![Field::Protocol], Key::new().protocol(TCP)), Part::Reject(Reject::Reset)],
                vec![Part::Reject(Reject::PortUnreachable)],
                vec![Part::Reject(Reject::Prohibited)],
                vec![Part::Dispatch(place(), "places".into())],
                vec![Part::VerdictAmong(vec![Verdict::Drop, Verdict::Goto("leaf".into())])],
                vec![Part::BytesPerSecondOver(1_000_000), Part::Verdict(Verdict::Drop)],
                vec![Part::PerMilleOfPackets(100), Part::Verdict(Verdict::Drop)],
                vec![Part::Remember(source(), "seen".into())],
                vec![Part::SetMark(5)],
            ];
            rules.iter().for_each(|rule| batch.add_rule(&table, "rules", rule));
            let filter = Base { kind: Kind::Filter, hook: Hook::PreRouting, priority: -150 };
            let bases: [(&str, Base, Vec<Rule>); 4] = [
                ("pre", TRANSLATE, vec![
                    vec![to_port(TCP, 80), Part::DnatAmong(vec![target(2, 8080), target(3, 8081)])],
                    vec![to_port(TCP, 81), Part::Dnat(target(2, 8080))],
                ]),
                ("post", Base { hook: Hook::PostRouting, priority: 100, ..TRANSLATE }, vec![vec![
                    Part::In(vec![Field::SourceAddress, Field::DestinationAddress], "pairs".into()),
                    Part::Masquerade,
                ]]),
                ("raw", Base { priority: -300, ..filter }, vec![vec![to_port(UDP, 9), Part::NoTrack]]),
                ("out", filter, vec![
                    vec![Part::OfTransparentSocket, Part::SetMark(1), Part::Verdict(Verdict::Accept)],
                    vec![
                        Part::Is(vec![Field::Protocol], Key::new().protocol(TCP)),
                        Part::Tproxy(target(2, 15001)),
                    ],
                ]),
            ];
            for (name, base, rules) in &bases {
                batch.add_chain(&table, name, Some(*base));
                rules.iter().for_each(|rule| batch.add_rule(&table, name, rule));
            }
        }
        written.nft.commit(&batch).unwrap();
        assert_eq!(written.nft.tables(Family::V6).unwrap().len(), 1);
        let Some(listing) = written.listing() else { continue };
        let lines: Vec<&str> = listing.lines().map(str::trim).collect();
        for (family, ip, ips, icmp) in [
            ("ip", "ipv4_addr", ["10.0.0.0-10.0.0.255", "192.0.2.1", "192.0.2.2"], "icmp"),
            ("ip6", "ipv6_addr", ["fd00::-fd00::ff", "2001:db8::1", "2001:db8::2"], "icmpv6"),
        ] {
            let begin = lines.iter().position(|line| *line == format!("table {family} tried {{")).unwrap();
            let own = &lines[begin..];
            println!("{}", own.join("\n"));
            let [range, one, two] = ips;
            for expected in [
                format!("type {ip}"),
                format!("elements = {{ {one} }}"),
                "flags interval".to_owned(),
                icmp.to_owned(),
                two.to_owned(),
                range.to_owned(),
            ] {
                assert!(own.iter().any(|line| line.contains(&expected)), "{expected}: {own:#?}");
            }
        }
    }
}
