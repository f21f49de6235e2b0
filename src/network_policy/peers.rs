//! Peers of a rule: all addresses, blocks of addresses, and sets of pods' addresses that rules with equal selectors
//! share.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::IPBlock;

use super::port_range::Protocol;
use object::selector::{Operator, Requirement, Selector};

/// The name of a set of addresses: a description of its elements, equal for equal selectors. It can be of any length
/// and has spaces; the kernel's rules map it to a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(Arc<str>);

impl SetId {
    /// Returns whether its elements are [`Member::Endpoint`]s; otherwise they are [`Member::Address`]es.
    pub fn is_of_endpoints(&self) -> bool {
        self.0.starts_with(OF_ENDPOINTS)
    }
}

/// Prefix of the names of sets of endpoints, which are for a named port.
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
    /// A pod's address with the number of the set's named port in that pod.
    Endpoint(IpAddr, Protocol, u16),
}

/// The peers of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peers {
    /// Every address.
    Any,
    /// The addresses of a set, each a [`Member::Address`].
    Set(SetId),
    /// A block of addresses, including those of pods.
    Block(Block),
}

/// An `ipBlock`: a network with exceptions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// The network; its address has no bits beyond the prefix.
    pub cidr: IpNet,
    /// The exceptions, sorted and without duplicates.
    pub except: Vec<IpNet>,
}

impl Block {
    /// Reads a block; `None` if it is invalid. One invalid exception makes the whole block invalid, so that nothing is
    /// open that the user meant to close.
    pub(super) fn read(block: &IPBlock) -> Option<Self> {
        let read = |text: &String| text.parse::<IpNet>().ok().map(|net| net.trunc());
        let cidr = read(&block.cidr)?;
        let mut except = block.except.iter().flatten().map(read).collect::<Option<Vec<_>>>()?;
        except.sort_unstable();
        except.dedup();
        Some(Self { cidr, except })
    }

    /// Returns whether the block contains an address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.cidr.contains(&ip) && !self.except.iter().any(|except| except.contains(&ip))
    }
}

/// Formats the block as `10.0.0.0/8 except 10.1.0.0/16, 10.2.0.0/16`.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cidr)?;
        for (i, except) in self.except.iter().enumerate() {
            write!(f, "{}{except}", if i == 0 { " except " } else { ", " })?;
        }
        Ok(())
    }
}

/// The namespaces of a set of pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Namespaces {
    /// The namespace of this name.
    Named(String),
    /// Existing namespaces with matching labels.
    Selected(Selector),
    /// Every namespace, even if it does not exist as an object.
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

/// Defines a set's members: the addresses of the selected pods, or their endpoints for a named port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Definition {
    pub(super) id: SetId,
    pub(super) namespaces: Namespaces,
    /// Normalized by [`normal`]: sorted and without duplicates.
    pub(super) pods: Selector,
    /// Limits the members to addresses in this block.
    pub(super) within: Option<Block>,
    /// The named port, if the set is of endpoints.
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
        debug_assert!(text.is_ok(), "writing to a String cannot fail");
        Self { id: SetId(id.into()), namespaces, pods, within, port }
    }

    /// Returns the members that a selected pod with these addresses and named ports adds.
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

/// Normalizes a selector, so that the order of requirements and values does not matter.
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

/// Formats a selector as a query: `app=api,tier in (a,b),!canary`.
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

/// Quotes a name unless it has only plain characters: names of sets must not be ambiguous.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    if text.chars().all(plain) { text.into() } else { format!("{text:?}") }
}
