//! Changes that are collected and then executed at once: in one transaction of the kernel, or in several if they are
//! too large.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use netlink_packet_core::{
    Emitable, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
};
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, DataAttribute, Hook as HookAttribute, HookNumber, InetHookNumber,
    ListAttribute, NfTablesMessage, RuleAttribute, RuleMessage, SetAttribute, SetDescription,
    SetElementAttribute, SetElementFlags, SetElementList, SetElementMessage, SetFlags, SetMessage,
    TableAttribute, TableMessage,
};
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};

use super::expressions::{self, ANONYMOUS, AnonymousMap, Expression};
use super::model::{BaseChain, Element, Family, Field, Hook, Kind, Rule, Set, Table, TimedElement, Value};
use crate::FabricError;
use crate::netlink::Netlink;

/// The subsystem of nftables, which a batch names.
const NFTABLES: u16 = 10;
/// The maximum size of the elements in one message: their list is one attribute, whose length has 16 bits.
const ELEMENTS_BYTES: usize = 60_000;
/// The type of verdicts in maps (`NFT_DATA_VERDICT`).
const OF_VERDICTS: u32 = 0xffff_ff00;
/// `NFT_SET_ELEM_INTERVAL_END`.
const INTERVAL_END: u32 = 1;
/// Informs nft that a map's keys are in the machine's byte order, so that it prints them right
/// (`NFTNL_UDATA_SET_KEYBYTEORDER` = `BYTEORDER_HOST_ENDIAN`).
const NUMBERS_AS_THEY_ARE: [u8; 6] = {
    let [a, b, c, d] = 1_u32.to_ne_bytes();
    [0, 4, a, b, c, d]
};
/// The maximum number of attempts at a transaction, each of which a signal to this process interrupts.
const INTERRUPTED: usize = 16;
/// The size of the send buffer to request: the kernel accepts a batch only as a whole.
const SEND_BYTES: usize = 4 << 20;

/// Changes the nftables of the network namespace in which its socket was opened ([`crate::SocketKind::Netfilter`]),
/// which may be another one than that of this process.
#[derive(Debug)]
pub struct Nft {
    pub(super) socket: Netlink,
    /// The maximum size of a batch, in bytes.
    max_bytes: usize,
}

impl Nft {
    /// Changes nftables over this socket.
    pub fn new(socket: OwnedFd) -> Result<Self, FabricError> {
        // Without the privilege the buffer stays smaller.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BYTES);
        let has = rustix::net::sockopt::socket_send_buffer_size(&socket);
        let most = has.map_err(FabricError::at("netlink socket"))?.saturating_sub(4096);
        Ok(Self { socket: Netlink::from_descriptor(socket), max_bytes: most })
    }

    /// Executes the changes of a batch: atomically if they fit into one transaction, otherwise in their order. An error
    /// names the refused step.
    pub fn commit(&self, batch: &Batch) -> Result<(), FabricError> {
        let mut rest = &batch.messages[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(messages_per_transaction(rest, self.max_bytes));
            let mut bytes = edge(ControlMessage::BatchBegin);
            for (number, message) in (1..).zip(now) {
                let start = bytes.len();
                bytes.extend_from_slice(&message.bytes);
                // No acknowledgement is requested: the kernel reports failures in any case.
                stamp(&mut bytes[start..], number, message.flags);
            }
            bytes.extend(edge(ControlMessage::BatchEnd));
            let transacted = (0..INTERRUPTED).find_map(|_| match self.socket.transact(&bytes) {
                Err(failed) if failed.error.kind() == std::io::ErrorKind::Interrupted => None,
                done => Some(done),
            });
            let transacted = transacted.unwrap_or_else(|| self.socket.transact(&bytes));
            transacted.map_err(|failed| {
                let step = now.get(failed.request).map_or("nftables", |message| message.step.as_str());
                FabricError::new(step, failed.error)
            })?;
            rest = later;
        }
        Ok(())
    }
}

impl Nft {
    /// Returns true if a batch fits into one transaction: if the kernel refuses it, it has changed nothing.
    pub fn fits_one_transaction(&self, batch: &Batch) -> bool {
        messages_per_transaction(&batch.messages, self.max_bytes) >= batch.messages.len()
    }

    /// Returns the maximum size of one transaction, in bytes; larger batches take several.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes.saturating_sub(2 * edge(ControlMessage::BatchBegin).len())
    }
}

/// Returns the number of these messages that fit into one transaction of this many bytes: as many as possible, without
/// splitting messages that belong together.
fn messages_per_transaction(messages: &[Message], most: usize) -> usize {
    let mut bytes = 2 * edge(ControlMessage::BatchBegin).len();
    let mut taken = 0;
    for (number, message) in (1..).zip(messages) {
        bytes += message.bytes.len();
        if taken > 0 && bytes > most {
            break;
        }
        if !message.with_next {
            taken = number;
        }
    }
    taken.max(1)
}

pub(super) fn proto_family(family: Family) -> NetfilterProtoFamily {
    match family {
        Family::V4 => NetfilterProtoFamily::IPv4,
        Family::V6 => NetfilterProtoFamily::IPv6,
    }
}

/// Writes number and flags into a message's header.
fn stamp(message: &mut [u8], sequence: u32, flags: u16) {
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message[8..12].copy_from_slice(&sequence.to_ne_bytes());
}

/// Returns the message that begins or ends a batch.
fn edge(message: ControlMessage) -> Vec<u8> {
    let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, NFTABLES);
    encoded(NetfilterMessage::new(header, message), NLM_F_REQUEST)
}

pub(super) fn encoded(message: NetfilterMessage, flags: u16) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, message.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
    message.serialize(&mut bytes);
    bytes
}

/// One change.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    flags: u16,
    step: String,
    /// True if it must be in the same transaction as the next one: numbers of sets are valid only within a transaction.
    with_next: bool,
}

/// A sequence of changes. Each must be valid after the changes before it: the objects that it names must exist.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    messages: Vec<Message>,
    bytes: usize,
}

/// Numbers of new sets: within a transaction the kernel identifies them by number before they have names.
static SETS: AtomicU32 = AtomicU32::new(1);

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the size of the messages, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Creates a table, unless it exists.
    pub fn add_table(&mut self, table: &Table) {
        let attributes = vec![TableAttribute::Name(table.name.clone())];
        let message = NfTablesMessage::NewTable(TableMessage { attributes });
        self.add(table, format!("table {}", table.name), message, NLM_F_CREATE);
    }

    /// Removes a table with all that is in it.
    pub fn delete_table(&mut self, table: &Table) {
        let attributes = vec![TableAttribute::Name(table.name.clone())];
        let message = NfTablesMessage::DeleteTable(TableMessage { attributes });
        self.add(table, format!("delete table {}", table.name), message, 0);
    }

    /// Creates a chain, unless it exists; a base chain is called by the kernel's hook, and accepts packets that no rule
    /// decides.
    pub fn add_chain(&mut self, table: &Table, name: &str, base: Option<BaseChain>) {
        let mut attributes =
            vec![ChainAttribute::Table(table.name.clone()), ChainAttribute::Name(name.to_owned())];
        if let Some(BaseChain { kind, hook, priority }) = base {
            let hook = match hook {
                Hook::PreRouting => InetHookNumber::PreRouting,
                Hook::Input => InetHookNumber::LocalIn,
                Hook::Forward => InetHookNumber::Forward,
                Hook::Output => InetHookNumber::LocalOut,
                Hook::PostRouting => InetHookNumber::PostRouting,
            };
            let kind = match kind {
                Kind::Filter => "filter",
                Kind::Nat => "nat",
                Kind::Route => "route",
            };
            attributes.extend([
                ChainAttribute::Hook(vec![
                    HookAttribute::Number(HookNumber::Inet(hook)),
                    HookAttribute::Priority(priority.cast_unsigned()),
                ]),
                ChainAttribute::Policy(1),
                ChainAttribute::Type(kind.to_owned()),
            ]);
        }
        let message = NfTablesMessage::NewChain(ChainMessage { attributes });
        self.add(table, format!("chain {name}"), message, NLM_F_CREATE);
    }

    /// Removes all rules of a chain.
    pub fn flush_chain(&mut self, table: &Table, name: &str) {
        let attributes =
            vec![RuleAttribute::Table(table.name.clone()), RuleAttribute::Chain(name.to_owned())];
        let message = NfTablesMessage::DeleteRule(RuleMessage { attributes });
        self.add(table, format!("flush chain {name}"), message, 0);
    }

    /// Removes a chain, which no rule may refer to any more.
    pub fn delete_chain(&mut self, table: &Table, name: &str) {
        let attributes =
            vec![ChainAttribute::Table(table.name.clone()), ChainAttribute::Name(name.to_owned())];
        let message = NfTablesMessage::DeleteChain(ChainMessage { attributes });
        self.add(table, format!("delete chain {name}"), message, 0);
    }

    /// Appends a rule to a chain.
    pub fn add_rule(&mut self, table: &Table, chain: &str, rule: &Rule) {
        let mut expressions: Vec<Expression> = Vec::new();
        for part in rule {
            let mut anonymous = |map: &AnonymousMap| self.add_anonymous(table, map);
            expressions.extend(expressions::of(part, table.family, &mut anonymous));
        }
        let attributes = vec![
            RuleAttribute::Table(table.name.clone()),
            RuleAttribute::Chain(chain.to_owned()),
            RuleAttribute::Expressions(expressions),
        ];
        let message = NfTablesMessage::NewRule(RuleMessage { attributes });
        self.add(table, format!("rule of chain {chain}"), message, NLM_F_CREATE | NLM_F_APPEND);
    }

    /// Creates a set or map, unless it exists.
    pub fn add_set(&mut self, table: &Table, set: &Set) {
        let family = table.family;
        let widths = set.fields.iter().map(|field| expressions::width(*field, family));
        let mut flags = SetFlags::empty();
        let (_, mut attributes) = head_of_set(table, &set.name);
        let kind = set.fields.iter().fold(0, |all, field| all << 6 | expressions::nft_type(*field, family));
        attributes.extend([SetAttribute::KeyType(kind), SetAttribute::KeyLen(widths.clone().sum())]);
        if set.intervals {
            flags |= SetFlags::Interval;
        }
        if set.intervals && is_concatenated(set) {
            flags |= SetFlags::Concat;
            let field = |width| expressions::nested(1, &[expressions::u32_be(1, width)]);
            let fields = vec![SetDescription::Concat(widths.map(field).collect())];
            attributes.push(SetAttribute::Description(fields));
        }
        if set.verdicts {
            flags |= SetFlags::Map;
            attributes.push(SetAttribute::DataType(OF_VERDICTS));
        }
        if set.numbers {
            flags |= SetFlags::Map;
            attributes.push(SetAttribute::DataType(expressions::nft_type(Field::Mark, family)));
            attributes.push(SetAttribute::DataLen(expressions::width(Field::Mark, family)));
        }
        if let Some(after) = set.timeout {
            flags |= SetFlags::Timeout | SetFlags::Eval;
            attributes.push(SetAttribute::Timeout(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)));
        }
        attributes.push(SetAttribute::Flags(flags));
        let message = NfTablesMessage::NewSet(SetMessage { attributes });
        self.add(table, format!("set {}", set.name), message, NLM_F_CREATE);
    }

    /// Removes a set, which no rule may refer to any more.
    pub fn delete_set(&mut self, table: &Table, name: &str) {
        let attributes = vec![SetAttribute::Table(table.name.clone()), SetAttribute::Name(name.to_owned())];
        let message = NfTablesMessage::DeleteSet(SetMessage { attributes });
        self.add(table, format!("delete set {name}"), message, 0);
    }

    /// Adds elements to a set; existing ones do not change.
    pub fn add_elements<'a>(
        &mut self,
        table: &Table,
        set: &Set,
        elements: impl IntoIterator<Item = &'a Element>,
    ) {
        self.elements(table, set, elements, true);
    }

    /// Removes elements from a set, which must exist.
    pub fn delete_elements<'a>(
        &mut self,
        table: &Table,
        set: &Set,
        elements: impl IntoIterator<Item = &'a Element>,
    ) {
        self.elements(table, set, elements, false);
    }

    fn elements<'a>(
        &mut self,
        table: &Table,
        set: &Set,
        elements: impl IntoIterator<Item = &'a Element>,
        add: bool,
    ) {
        let all: Vec<_> = elements.into_iter().flat_map(|element| attributes_of(element, set)).collect();
        self.listed(table, &set.name, &all, add);
    }

    /// Adds the elements of another table's set to a set with timeouts: with their remaining time, but not more than
    /// this set's timeout.
    pub fn add_remembered(&mut self, table: &Table, set: &Set, all: &[TimedElement]) {
        let most = set.timeout.unwrap_or_default();
        let milliseconds = |time: Duration| u64::try_from(time.min(most).as_millis()).unwrap_or(u64::MAX);
        let element = |one: &TimedElement| {
            ListAttribute::Element(vec![
                SetElementAttribute::Key(DataAttribute::Value(one.key.0.clone())),
                SetElementAttribute::Expiration(milliseconds(one.expires)),
            ])
        };
        let all: Vec<_> = all.iter().map(element).collect();
        self.listed(table, &set.name, &all, true);
    }

    fn listed(&mut self, table: &Table, set: &str, all: &[ListAttribute<SetElementAttribute>], add: bool) {
        for some in chunks(all) {
            let attributes = vec![
                SetElementList::Table(table.name.clone()),
                SetElementList::Set(set.to_owned()),
                SetElementList::Elements(some.to_vec()),
            ];
            let message = SetElementMessage { attributes };
            let (message, flags) = if add {
                (NfTablesMessage::NewSetElement(message), NLM_F_CREATE)
            } else {
                (NfTablesMessage::DeleteSetElement(message), 0)
            };
            self.add(table, format!("elements of set {set}"), message, flags);
        }
    }

    /// Creates a map that belongs to a rule, and returns its number.
    fn add_anonymous(&mut self, table: &Table, map: &AnonymousMap) -> u32 {
        let (number, mut attributes) = head_of_set(table, ANONYMOUS);
        // The type as which nft prints the values: an address with a port.
        let (data_type, data_bytes) = match map.value_bytes {
            Some(bytes) => {
                let address = if table.family == Family::V4 { 7 } else { 8 };
                (address << 6 | expressions::nft_type(Field::DestinationPort, table.family), bytes)
            }
            None => (OF_VERDICTS, 0),
        };
        attributes.extend([
            SetAttribute::KeyType(4),
            SetAttribute::KeyLen(map.key_bytes),
            SetAttribute::Flags(SetFlags::Anonymous | SetFlags::Constant | SetFlags::Map),
            SetAttribute::DataType(data_type),
            SetAttribute::UserData(NUMBERS_AS_THEY_ARE.to_vec()),
        ]);
        if data_bytes > 0 {
            attributes.push(SetAttribute::DataLen(data_bytes));
        }
        let message = NfTablesMessage::NewSet(SetMessage { attributes });
        let begin = self.messages.len();
        self.add(table, "map of a rule".to_owned(), message, NLM_F_CREATE);
        let element = |(key, value): &(super::Key, Value)| {
            ListAttribute::Element(vec![
                SetElementAttribute::Key(DataAttribute::Value(key.0.clone())),
                value_of(value),
            ])
        };
        let all: Vec<_> = map.elements.iter().map(element).collect();
        for some in chunks(&all) {
            let attributes = vec![
                SetElementList::Table(table.name.clone()),
                SetElementList::Set(ANONYMOUS.to_owned()),
                SetElementList::SetId(number),
                SetElementList::Elements(some.to_vec()),
            ];
            let message = NfTablesMessage::NewSetElement(SetElementMessage { attributes });
            self.add(table, "elements of the map of a rule".to_owned(), message, NLM_F_CREATE);
        }
        for message in &mut self.messages[begin..] {
            message.with_next = true;
        }
        number
    }

    /// Appends later changes.
    pub fn append(&mut self, mut later: Self) {
        self.messages.append(&mut later.messages);
        self.bytes += later.bytes;
    }

    fn add(&mut self, table: &Table, step: String, message: NfTablesMessage, flags: u16) {
        let header = NetfilterHeader::new(proto_family(table.family), 0, 0);
        let message = NetfilterMessage::new(header, message);
        let flags = NLM_F_REQUEST | flags;
        let bytes = encoded(message, flags);
        self.bytes += bytes.len();
        self.messages.push(Message { bytes, flags, step, with_next: false });
    }
}

/// Splits elements into chunks that fit into one message each.
fn chunks(elements: &[ListAttribute<SetElementAttribute>]) -> Vec<&[ListAttribute<SetElementAttribute>]> {
    let (mut all, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (place, element) in elements.iter().enumerate() {
        let own = std::slice::from_ref(element).buffer_len();
        if bytes + own > ELEMENTS_BYTES {
            all.push(&elements[begin..place]);
            (begin, bytes) = (place, 0);
        }
        bytes += own;
    }
    all.push(&elements[begin..]);
    all.retain(|some| !some.is_empty());
    all
}

/// Returns the attributes that the kernel needs for every new set, and the set's number.
fn head_of_set(table: &Table, name: &str) -> (u32, Vec<SetAttribute>) {
    let number = SETS.fetch_add(1, Ordering::Relaxed);
    let attributes = vec![
        SetAttribute::Table(table.name.clone()),
        SetAttribute::Name(name.to_owned()),
        SetAttribute::Id(number),
    ];
    (number, attributes)
}

/// Returns true if the keys are ranges of several fields, which the kernel stores differently than ranges of one field.
fn is_concatenated(set: &Set) -> bool {
    set.fields.len() > 1
}

/// Returns the kernel's form of an element: two elements for a range of one field, its start and the value after its
/// end.
fn attributes_of(element: &Element, set: &Set) -> Vec<ListAttribute<SetElementAttribute>> {
    let mut own = vec![SetElementAttribute::Key(DataAttribute::Value(element.key.0.clone()))];
    own.extend(element.value.as_ref().map(value_of));
    let last = element.last.as_ref().unwrap_or(&element.key);
    if set.intervals && is_concatenated(set) {
        let end = expressions::attribute_value(&last.0);
        own.push(SetElementAttribute::KeyEnd(vec![end]));
    } else if set.intervals {
        let mut all = vec![ListAttribute::Element(own)];
        if let Some(next) = after(&last.0) {
            all.push(ListAttribute::Element(vec![
                SetElementAttribute::Key(DataAttribute::Value(next)),
                SetElementAttribute::Flags(SetElementFlags::from_bits_retain(INTERVAL_END)),
            ]));
        }
        return all;
    }
    vec![ListAttribute::Element(own)]
}

/// Returns the number after this one; `None` after the last.
fn after(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut next = bytes.to_vec();
    for byte in next.iter_mut().rev() {
        let (sum, overflows) = byte.overflowing_add(1);
        *byte = sum;
        if !overflows {
            return Some(next);
        }
    }
    None
}

fn value_of(value: &Value) -> SetElementAttribute {
    SetElementAttribute::Data(match value {
        Value::Verdict(verdict) => DataAttribute::Other(expressions::data_of_verdict(verdict)),
        Value::Key(key) => DataAttribute::Value(key.0.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::nft::Statement;

    #[test]
    fn a_rule_and_its_map_are_never_in_two_transactions_net_6() {
        let table = Table { family: Family::V4, name: "t".to_owned() };
        let mut batch = Batch::new();
        batch.add_chain(&table, "c", None);
        for count in [1, 2, 5000, 3] {
            let among = (0..count).map(|_| SocketAddr::from(([10, 244, 1, 1], 80))).collect();
            batch.add_rule(&table, "c", &vec![Statement::DnatAmong(among)]);
        }
        for most in (0..batch.bytes() + 100).step_by(97) {
            let (mut rest, mut transactions) = (&batch.messages[..], 0);
            while !rest.is_empty() {
                let (now, later) = rest.split_at(messages_per_transaction(rest, most));
                assert!(!now.last().unwrap().with_next, "{most}: {}", now.last().unwrap().step);
                let bytes: usize = now.iter().map(|message| message.bytes.len()).sum();
                let belongs_together = now[..now.len() - 1].iter().all(|message| message.with_next);
                assert!(bytes <= most || belongs_together, "{most}: {bytes}");
                (rest, transactions) = (later, transactions + 1);
            }
            assert!((1..=5).contains(&transactions));
        }
        assert!(batch.messages.iter().all(|message| message.bytes.len() < 1 << 16));
    }
}
