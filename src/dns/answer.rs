//! Answers one question about the cluster's names, according to the Kubernetes DNS specification.
//!
//! Pure: a name and a type in, records out. Names outside the cluster's domain are [`Answer::OutsideDomain`].

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::index::{Index, NameTarget, NamedEndpoint, NamedPort, NamedService};
use egress::HOST;

/// TTL of stable records, in seconds.
const STABLE_TTL: u32 = 30;
/// TTL of records that change often, and of negative answers, in seconds.
const SHORT_TTL: u32 = 5;
/// The version of the Kubernetes DNS specification that this implements.
const VERSION: &str = "1.1.0";
/// Maximum number of aliases followed in a chain.
const ALIASES: usize = 8;

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Records, and additional ones that save the client another question.
    Records {
        /// The answer section.
        answers: Vec<Record>,
        /// Addresses of the names in the answer section.
        additionals: Vec<Record>,
    },
    /// The name exists but has no records of this type (NODATA).
    NoData,
    /// The name does not exist (NXDOMAIN).
    NxDomain,
    /// The name is an alias for one outside the cluster's domain, which another server must resolve.
    Alias {
        /// The chain of CNAME records.
        aliases: Vec<Record>,
        /// The name at the end of the chain.
        target: Name,
    },
    /// The name is outside the cluster's domain.
    OutsideDomain,
}

impl Answer {
    fn records(answers: Vec<Record>) -> Self {
        if answers.is_empty() { Self::NoData } else { Self::Records { answers, additionals: Vec::new() } }
    }
}

/// Returns the SOA record that goes with a negative answer.
pub(crate) fn authority(index: &Index) -> Option<Record> {
    let name = |label: &str| absolute(&format!("{label}{}", index.domain));
    let soa = SOA::new(name("ns.dns.")?, name("hostmaster.")?, 1, 7200, 1800, 86_400, SHORT_TTL);
    Some(Record::from_rdata(name("")?, SHORT_TTL, RData::SOA(soa)))
}

/// Answers a question, following aliases within the cluster's domain.
pub fn find_records(index: &Index, name: &Name, type_: RecordType) -> Answer {
    let (mut aliases, mut name) = (Vec::new(), name.clone());
    // A chain of aliases may be a cycle.
    while aliases.len() < ALIASES {
        match step(index, &name, type_) {
            Answer::Alias { aliases: more, target } => {
                aliases.extend(more);
                name = target;
            }
            other if aliases.is_empty() => return other,
            Answer::OutsideDomain => return Answer::Alias { aliases, target: name },
            Answer::Records { answers, additionals } => {
                aliases.extend(answers);
                return Answer::Records { answers: aliases, additionals };
            }
            Answer::NoData | Answer::NxDomain => break,
        }
    }
    Answer::records(aliases)
}

/// Answers a question without following an alias.
fn step(index: &Index, name: &Name, type_: RecordType) -> Answer {
    let lower = name.to_lowercase().to_ascii();
    let lower = lower.trim_end_matches('.');
    if lower == "localhost" || lower.ends_with(".localhost") {
        return addresses(name, type_, [Ipv4Addr::LOCALHOST.into()], STABLE_TTL);
    }
    if lower == HOST {
        return match index.host {
            Some(ip) => addresses(name, type_, [ip.into()], STABLE_TTL),
            None => Answer::NxDomain,
        };
    }
    if let Some(reversed) = lower.strip_suffix(".in-addr.arpa") {
        return reverse(index, name, type_, reversed);
    }
    if let Some(reversed) = lower.strip_suffix(".ip6.arpa") {
        return match of_nibbles(reversed) {
            Some(ip) => pointers(index, name, type_, ip).unwrap_or(Answer::OutsideDomain),
            None => Answer::OutsideDomain,
        };
    }
    let Some(rest) = lower.strip_suffix(&index.domain) else {
        // No public resolver knows names without a dot; forwarding them would only waste time.
        return if lower.contains('.') || lower.is_empty() {
            Answer::OutsideDomain
        } else {
            Answer::NxDomain
        };
    };
    let question = Question { index, name, type_ };
    if rest.is_empty() {
        return question.apex();
    }
    match rest.strip_suffix('.') {
        Some(rest) => question.below(&rest.split('.').collect::<Vec<_>>()),
        None => Answer::OutsideDomain,
    }
}

struct Question<'a> {
    index: &'a Index,
    /// The name as the client wrote it: answers repeat its upper and lower case.
    name: &'a Name,
    type_: RecordType,
}

impl Question<'_> {
    fn apex(&self) -> Answer {
        match self.type_ {
            RecordType::SOA => {
                let soa = authority(self.index).map(|soa| self.record(SHORT_TTL, soa.data));
                Answer::records(soa.into_iter().collect())
            }
            RecordType::NS => {
                let server = self.full("ns.dns");
                Answer::records(
                    server.map(|n| self.record(STABLE_TTL, RData::NS(NS(n)))).into_iter().collect(),
                )
            }
            _ => Answer::NoData,
        }
    }

    /// Answers for the labels below the domain, outermost last.
    fn below(&self, labels: &[&str]) -> Answer {
        match labels {
            ["dns-version"] => match self.type_ {
                RecordType::TXT | RecordType::ANY => {
                    let text = TXT::new(vec![VERSION.to_string()]);
                    Answer::records(vec![self.record(STABLE_TTL, RData::TXT(text))])
                }
                _ => Answer::NoData,
            },
            ["ns", "dns"] => addresses(self.name, self.type_, self.index.servers.iter().copied(), STABLE_TTL),
            [.., namespace, "svc" | "pod"] if !self.index.has_namespace(namespace) => Answer::NxDomain,
            ["svc" | "pod" | "dns"] | [_, "svc" | "pod"] => Answer::NoData,
            [ip, _, "pod"] => match undashed(ip) {
                Some(ip) => addresses(self.name, self.type_, [ip], SHORT_TTL),
                None => Answer::NxDomain,
            },
            [rest @ .., service, namespace, "svc"] => match self.index.service(namespace, service) {
                Some(found) => self.of_service(found, rest, &format!("{service}.{namespace}.svc")),
                None => Answer::NxDomain,
            },
            _ => Answer::NxDomain,
        }
    }

    /// Answers for a name of a service: `rest` are the labels before the service's own name, and `own` is that name
    /// relative to the domain.
    fn of_service(&self, service: &NamedService, rest: &[&str], own: &str) -> Answer {
        match (rest, &service.meaning) {
            ([], NameTarget::Alias(target)) => self.alias(target),
            ([], _) => self.all_of(service, own, |_| true),
            ([port, protocol], NameTarget::Addresses(_) | NameTarget::Endpoints) => {
                let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol.strip_prefix('_'))
                else {
                    return Answer::NxDomain;
                };
                let is_requested = |p: &NamedPort| p.name == port && p.protocol == protocol;
                let offers = |ports: &[NamedPort]| ports.iter().any(is_requested);
                if !offers(&service.ports) && !service.endpoints.iter().any(|e| offers(&e.ports)) {
                    return Answer::NxDomain;
                }
                self.all_of(service, own, is_requested)
            }
            ([endpoint], NameTarget::Addresses(_) | NameTarget::Endpoints) => {
                let called: Vec<_> = service.endpoints.iter().filter(|e| e.has_label(endpoint)).collect();
                if called.is_empty() { Answer::NxDomain } else { self.endpoints(&called, own, |_| true) }
            }
            _ => Answer::NxDomain,
        }
    }

    fn all_of(&self, service: &NamedService, own: &str, is_requested: impl Fn(&NamedPort) -> bool) -> Answer {
        let NameTarget::Addresses(ips) = &service.meaning else {
            let with_port = |e: &&NamedEndpoint| e.ports.is_empty() || e.ports.iter().any(&is_requested);
            let endpoints: Vec<_> = service.endpoints.iter().filter(with_port).collect();
            // A headless service without endpoints does not exist in DNS, so that clients which wait for it ask again.
            return if endpoints.is_empty() {
                Answer::NxDomain
            } else {
                self.endpoints(&endpoints, own, is_requested)
            };
        };
        if self.type_ != RecordType::SRV {
            return addresses(self.name, self.type_, ips.iter().copied(), STABLE_TTL);
        }
        let Some(target) = self.full(own) else { return Answer::NoData };
        let ports: Vec<_> = service.ports.iter().filter(|p| is_requested(p)).collect();
        let srv = |p: &&NamedPort| {
            self.record(STABLE_TTL, RData::SRV(SRV::new(0, weight(ports.len()), p.number, target.clone())))
        };
        let answers: Vec<Record> = ports.iter().map(srv).collect();
        if answers.is_empty() {
            return Answer::NoData;
        }
        let additionals = ips.iter().map(|ip| address(&target, *ip, STABLE_TTL)).collect();
        Answer::Records { answers, additionals }
    }

    fn endpoints(
        &self,
        endpoints: &[&NamedEndpoint],
        own: &str,
        is_requested: impl Fn(&NamedPort) -> bool,
    ) -> Answer {
        if self.type_ != RecordType::SRV {
            let mut ips: Vec<IpAddr> = endpoints.iter().map(|e| e.ip).collect();
            ips.sort_unstable();
            ips.dedup();
            return addresses(self.name, self.type_, ips, SHORT_TTL);
        }
        let (mut answers, mut additionals, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        // Count an endpoint with an address of each family once.
        let offers = endpoints.iter().flat_map(|e| e.ports.iter().map(|p| (&e.name, p)));
        let count = offers.filter(|(_, p)| is_requested(p)).collect::<BTreeSet<_>>().len();
        for endpoint in endpoints {
            let Some(target) = self.full(&format!("{}.{own}", endpoint.name)) else { continue };
            for port in endpoint.ports.iter().filter(|p| is_requested(p)) {
                let srv = SRV::new(0, weight(count), port.number, target.clone());
                let record = self.record(SHORT_TTL, RData::SRV(srv));
                if known.insert((&endpoint.name, port)) {
                    answers.push(record);
                }
            }
            additionals.push(address(&target, endpoint.ip, SHORT_TTL));
        }
        if answers.is_empty() { Answer::NoData } else { Answer::Records { answers, additionals } }
    }

    fn alias(&self, target: &str) -> Answer {
        let Some(target) = absolute(target) else { return Answer::NoData };
        let alias = self.record(STABLE_TTL, RData::CNAME(CNAME(target.clone())));
        match self.type_ {
            RecordType::CNAME => Answer::records(vec![alias]),
            RecordType::A | RecordType::AAAA | RecordType::ANY => {
                Answer::Alias { aliases: vec![alias], target }
            }
            _ => Answer::NoData,
        }
    }

    fn full(&self, below: &str) -> Option<Name> {
        absolute(&format!("{below}.{}", self.index.domain))
    }

    fn record(&self, seconds: u32, data: RData) -> Record {
        Record::from_rdata(self.name.clone(), seconds, data)
    }
}

/// Answers a PTR question: the name `10.0.32.127.in-addr.arpa` stands for the address 127.32.0.10.
fn reverse(index: &Index, name: &Name, type_: RecordType, reversed: &str) -> Answer {
    let labels: Vec<&str> = reversed.split('.').collect();
    let octets: Option<Vec<u8>> = labels.iter().rev().map(|label| label.parse().ok()).collect();
    let Some(octets) = octets else { return Answer::OutsideDomain };
    let is_loopback = octets.first() == Some(&127);
    let Ok(octets) = <[u8; 4]>::try_from(octets) else {
        return if is_loopback { Answer::NoData } else { Answer::OutsideDomain };
    };
    // No other server knows this machine's loopback addresses.
    let unknown = if is_loopback { Answer::NxDomain } else { Answer::OutsideDomain };
    pointers(index, name, type_, octets.into()).unwrap_or(unknown)
}

/// Parses an IPv6 address from 32 hexadecimal labels, the last digit first.
fn of_nibbles(reversed: &str) -> Option<IpAddr> {
    let digits: Vec<&str> = reversed.split('.').collect();
    if digits.len() != 32 || digits.iter().any(|digit| digit.len() != 1) {
        return None;
    }
    let text: String = digits.into_iter().rev().collect();
    u128::from_str_radix(&text, 16).ok().map(|bits| Ipv6Addr::from_bits(bits).into())
}

/// Returns the PTR records of an address; `None` if no service or endpoint has it.
fn pointers(index: &Index, name: &Name, type_: RecordType, ip: IpAddr) -> Option<Answer> {
    let names = index.names_of(ip);
    if names.is_empty() {
        return None;
    }
    if !matches!(type_, RecordType::PTR | RecordType::ANY) {
        return Some(Answer::NoData);
    }
    let full = |(key, endpoint): (&object::Key, Option<&str>)| {
        let dot = if endpoint.is_some() { "." } else { "" };
        let endpoint = endpoint.unwrap_or_default();
        absolute(&format!("{endpoint}{dot}{}.{}.svc.{}", key.name, key.namespace, index.domain))
    };
    let pointer = |target| Record::from_rdata(name.clone(), SHORT_TTL, RData::PTR(PTR(target)));
    Some(Answer::records(names.into_iter().filter_map(full).map(pointer).collect()))
}

fn addresses(name: &Name, type_: RecordType, ips: impl IntoIterator<Item = IpAddr>, seconds: u32) -> Answer {
    let is_requested = |ip: &IpAddr| match type_ {
        RecordType::A => ip.is_ipv4(),
        RecordType::AAAA => ip.is_ipv6(),
        other => other == RecordType::ANY,
    };
    Answer::records(ips.into_iter().filter(is_requested).map(|ip| address(name, ip, seconds)).collect())
}

fn address(name: &Name, ip: IpAddr, seconds: u32) -> Record {
    let data = match ip {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    };
    Record::from_rdata(name.clone(), seconds, data)
}

/// Returns the weight that CoreDNS gives each of `count` SRV records.
fn weight(count: usize) -> u16 {
    u16::try_from(100 / count.max(1)).unwrap_or(0).max(1)
}

fn undashed(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".").parse::<Ipv4Addr>().map(IpAddr::V4);
    v4.or_else(|_| label.replace('-', ":").parse::<Ipv6Addr>().map(IpAddr::V6)).ok()
}

/// Parses a name; `None` if it cannot be encoded, such as one with a label of more than 63 letters.
fn absolute(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?;
    name.set_fqdn(true);
    Some(name)
}
