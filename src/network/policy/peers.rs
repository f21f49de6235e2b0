//! Peers of a rule: everybody, blocks of addresses, and sets of pods' addresses that all rules with the same selectors share.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::IPBlock;

use super::port_range::Protocol;
use object::selector::{Operator, Requirement, Selector};

/// The name of a set of addresses: what its elements are, in words that are the same for the same selectors. Of any
/// length and with spaces: whoever needs a short name makes one of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(Arc<str>);

impl SetId {
    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether its elements are [`Member::Endpoint`]s; of all others they are [`Member::Address`]es.
    pub fn is_of_endpoints(&self) -> bool {
        self.0.starts_with(OF_ENDPOINTS)
    }
}

/// How the names of sets begin that are of a port by its name.
const OF_ENDPOINTS: &str = "port ";

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An element of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Member {
    /// A pod's address.
    Address(IpAddr),
    /// A pod's address with the port that it has of the name that the set asks for.
    Endpoint(IpAddr, Protocol, u16),
}

/// What a rule lets in or out, by where it comes from or goes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peers {
    /// Every address.
    Everybody,
    /// The addresses of a set, each a [`Member::Address`].
    Set(SetId),
    /// A block of addresses, pods' among them.
    Block(Block),
}

/// `ipBlock`: a network without some of its parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// The network; its address has no bits beyond the prefix.
    pub cidr: IpNet,
    /// What is not meant, in order, each once.
    pub except: Vec<IpNet>,
}

impl Block {
    /// The block as it is written; none when it cannot be read. An exception that cannot be read excepts all, for
    /// nothing must be open that somebody meant to close.
    pub(super) fn read(block: &IPBlock) -> Option<Self> {
        let read = |text: &String| text.parse::<IpNet>().ok().map(|net| net.trunc());
        let cidr = read(&block.cidr)?;
        let mut except = block.except.iter().flatten().map(read).collect::<Option<Vec<_>>>()?;
        except.sort_unstable();
        except.dedup();
        Some(Self { cidr, except })
    }

    /// Whether an address is meant.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.cidr.contains(&ip) && !self.except.iter().any(|except| except.contains(&ip))
    }
}

/// `10.0.0.0/8 except 10.1.0.0/16, 10.2.0.0/16`
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cidr)?;
        for (i, except) in self.except.iter().enumerate() {
            write!(f, "{}{except}", if i == 0 { " except " } else { ", " })?;
        }
        Ok(())
    }
}

/// Which namespaces a set of pods looks into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Namespaces {
    /// One, of this name.
    Named(String),
    /// Those with such labels.
    Selected(Selector),
    /// Every one, known or not.
    All,
}

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "namespace {}", quoted(name)),
            Self::Selected(selector) if selector.is_everything() => f.write_str("any known namespace"),
            Self::Selected(selector) => write!(f, "namespaces {}", describe(selector)),
            Self::All => f.write_str("any namespace"),
        }
    }
}

/// What a set holds: the addresses of the pods that are selected, or what they have of a named port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Definition {
    pub(super) id: SetId,
    pub(super) namespaces: Namespaces,
    /// In order and each once, as [`normal`] gives it.
    pub(super) pods: Selector,
    /// Only addresses in here.
    pub(super) within: Option<Block>,
    /// The port meant, where it is one by name.
    pub(super) port: Option<(Protocol, String)>,
}

impl Definition {
    pub(super) fn new(
        namespaces: Namespaces,
        pods: Selector,
        within: Option<Block>,
        port: Option<(Protocol, String)>,
    ) -> Self {
        let pods = normal(pods);
        let namespaces = match namespaces {
            Namespaces::Selected(selector) => Namespaces::Selected(normal(selector)),
            named => named,
        };
        let mut id = String::new();
        let text = (|| {
            if let Some((protocol, name)) = &port {
                write!(id, "{OF_ENDPOINTS}{}/{protocol} of ", quoted(name))?;
            }
            write!(id, "pods")?;
            if !pods.is_everything() {
                write!(id, " {}", describe(&pods))?;
            }
            write!(id, " in {namespaces}")?;
            if let Some(block) = &within {
                write!(id, " within {block}")?;
            }
            fmt::Result::Ok(())
        })();
        debug_assert!(text.is_ok(), "a String takes all that is written");
        Self { id: SetId(id.into()), namespaces, pods, within, port }
    }

    /// The elements that a pod with these addresses and named ports has here, once it is selected.
    pub(super) fn members<'a>(
        &'a self,
        ips: &'a [IpAddr],
        numbers: impl Fn(Protocol, &str) -> Vec<u16> + 'a,
    ) -> impl Iterator<Item = Member> + 'a {
        let meant = |ip: &&IpAddr| self.within.as_ref().is_none_or(|block| block.contains(**ip));
        ips.iter().filter(meant).flat_map(move |ip| match &self.port {
            None => vec![Member::Address(*ip)],
            Some((protocol, name)) => {
                let numbers = numbers(*protocol, name).into_iter();
                numbers.map(|number| Member::Endpoint(*ip, *protocol, number)).collect()
            }
        })
    }
}

/// The same selector for all that ask for the same in another order.
fn normal(selector: Selector) -> Selector {
    if selector.requirements().is_empty() {
        return selector;
    }
    let sorted = |values: &[String]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.dedup();
        values
    };
    let one = |requirement: &Requirement| {
        let operator = match &requirement.operator {
            Operator::In(values) => Operator::In(sorted(values)),
            Operator::NotIn(values) => Operator::NotIn(sorted(values)),
            other => other.clone(),
        };
        Requirement { key: requirement.key.clone(), operator }
    };
    let mut all: Vec<Requirement> = selector.requirements().iter().map(one).collect();
    all.sort_by_cached_key(text_of);
    all.dedup();
    Selector::all_of(all)
}

/// A selector in the form of a query: `app=api,tier in (a,b),!canary`.
pub(super) fn describe(selector: &Selector) -> String {
    if selector.is_everything() {
        return "<all>".into();
    }
    let all: Vec<String> = selector.requirements().iter().map(text_of).collect();
    if all.is_empty() { "<none>".into() } else { all.join(",") }
}

fn text_of(requirement: &Requirement) -> String {
    let key = quoted(&requirement.key);
    let list = |values: &[String]| values.iter().map(|v| quoted(v)).collect::<Vec<_>>().join(",");
    match &requirement.operator {
        Operator::In(values) => match values.as_slice() {
            [one] => format!("{key}={}", quoted(one)),
            many => format!("{key} in ({})", list(many)),
        },
        Operator::NotIn(values) => match values.as_slice() {
            [one] => format!("{key}!={}", quoted(one)),
            many => format!("{key} notin ({})", list(many)),
        },
        Operator::Exists => key,
        Operator::DoesNotExist => format!("!{key}"),
        Operator::GreaterThan(bound) => format!("{key}>{bound}"),
        Operator::LessThan(bound) => format!("{key}<{bound}"),
    }
}

/// A name as it is, or in quotes where it could be taken for something else: names of sets must not be ambiguous.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    if text.chars().all(plain) { text.into() } else { format!("{text:?}") }
}
