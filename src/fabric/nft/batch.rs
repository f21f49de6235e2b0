//! Changes that are collected and then executed at once: in one transaction of the kernel, or in several if they are
//! too large.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::c_int;
use netlink_packet_core::{DefaultNla, Emitable, NLM_F_APPEND, NLM_F_CREATE, NetlinkBuffer};

use super::attributes::{
    NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY, NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE,
    NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_LIST_ELEM, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS,
    NFTA_RULE_TABLE, NFTA_SET_DATA_LEN, NFTA_SET_DATA_TYPE, NFTA_SET_DESC, NFTA_SET_DESC_CONCAT,
    NFTA_SET_ELEM_DATA, NFTA_SET_ELEM_EXPIRATION, NFTA_SET_ELEM_FLAGS, NFTA_SET_ELEM_KEY,
    NFTA_SET_ELEM_KEY_END, NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_ELEM_LIST_SET, NFTA_SET_ELEM_LIST_SET_ID,
    NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_FIELD_LEN, NFTA_SET_FLAGS, NFTA_SET_ID, NFTA_SET_KEY_LEN,
    NFTA_SET_KEY_TYPE, NFTA_SET_NAME, NFTA_SET_TABLE, NFTA_SET_TIMEOUT, NFTA_SET_USERDATA, NFTA_TABLE_NAME,
};
use super::expressions::{self, ANONYMOUS, AnonymousMap};
use super::model::{
    BaseChain, Element, Family, Field, Hook, Key, Kind, Rule, Set, Table, TimedElement, Value,
};
use crate::FabricError;
use crate::netlink::Netlink;
use crate::netlink::message::{self, attribute, encode, nested, text, u32_be, u64_be};

/// The maximum size of the elements in one message: their list is one attribute, whose length has 16 bits.
const ELEMENTS_BYTES: usize = 60_000;
/// From linux/netfilter/nf_tables.h; libc lacks it.
const NFT_SET_CONCAT: c_int = 0x80;
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
            let mut bytes = edge(libc::NFNL_MSG_BATCH_BEGIN);
            for (number, message) in (1..).zip(now) {
                let start = bytes.len();
                bytes.extend_from_slice(&message.bytes);
                // No acknowledgement is requested: the kernel reports failures in any case.
                NetlinkBuffer::new(&mut bytes[start..]).set_sequence_number(number);
            }
            bytes.extend(edge(libc::NFNL_MSG_BATCH_END));
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
        self.max_bytes.saturating_sub(2 * edge(libc::NFNL_MSG_BATCH_BEGIN).len())
    }
}

/// Returns the number of these messages that fit into one transaction of this many bytes: as many as possible, without
/// splitting messages that belong together.
fn messages_per_transaction(messages: &[Message], most: usize) -> usize {
    let mut bytes = 2 * edge(libc::NFNL_MSG_BATCH_BEGIN).len();
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

/// Returns the message that begins or ends a batch.
fn edge(kind: c_int) -> Vec<u8> {
    let [high, low] = (libc::NFNL_SUBSYS_NFTABLES as u16).to_be_bytes();
    message::request(kind as u16, 0, 0, &[libc::NFPROTO_UNSPEC as u8, 0, high, low], &[])
}

/// Returns a request of nftables; `kind` is one of `NFT_MSG_*`.
pub(super) fn request(family: Family, kind: c_int, flags: u16, attributes: &[DefaultNla]) -> Vec<u8> {
    message::request(
        message::netfilter_type(libc::NFNL_SUBSYS_NFTABLES, kind),
        flags,
        0,
        &family.header(),
        attributes,
    )
}

/// One change.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
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
        let attributes = [text(NFTA_TABLE_NAME, &table.name)];
        let step = format!("table {}", table.name);
        self.add(table, step, libc::NFT_MSG_NEWTABLE, NLM_F_CREATE, &attributes);
    }

    /// Removes a table with all that is in it.
    pub fn delete_table(&mut self, table: &Table) {
        let attributes = [text(NFTA_TABLE_NAME, &table.name)];
        self.add(table, format!("delete table {}", table.name), libc::NFT_MSG_DELTABLE, 0, &attributes);
    }

    /// Creates a chain, unless it exists; a base chain is called by the kernel's hook, and accepts packets that no rule
    /// decides.
    pub fn add_chain(&mut self, table: &Table, name: &str, base: Option<BaseChain>) {
        let mut attributes = vec![text(NFTA_CHAIN_TABLE, &table.name), text(NFTA_CHAIN_NAME, name)];
        if let Some(BaseChain { kind, hook, priority }) = base {
            let hook = match hook {
                Hook::PreRouting => libc::NF_INET_PRE_ROUTING,
                Hook::Input => libc::NF_INET_LOCAL_IN,
                Hook::Forward => libc::NF_INET_FORWARD,
                Hook::Output => libc::NF_INET_LOCAL_OUT,
                Hook::PostRouting => libc::NF_INET_POST_ROUTING,
            };
            let kind = match kind {
                Kind::Filter => "filter",
                Kind::Nat => "nat",
                Kind::Route => "route",
            };
            let hook = [(NFTA_HOOK_HOOKNUM, hook), (NFTA_HOOK_PRIORITY, priority)];
            attributes.extend([
                nested(NFTA_CHAIN_HOOK, &hook.map(|(kind, value)| u32_be(kind, value.cast_unsigned()))),
                u32_be(NFTA_CHAIN_POLICY, libc::NF_ACCEPT.cast_unsigned()),
                text(NFTA_CHAIN_TYPE, kind),
            ]);
        }
        self.add(table, format!("chain {name}"), libc::NFT_MSG_NEWCHAIN, NLM_F_CREATE, &attributes);
    }

    /// Removes all rules of a chain.
    pub fn flush_chain(&mut self, table: &Table, name: &str) {
        let attributes = [text(NFTA_RULE_TABLE, &table.name), text(NFTA_RULE_CHAIN, name)];
        self.add(table, format!("flush chain {name}"), libc::NFT_MSG_DELRULE, 0, &attributes);
    }

    /// Removes a chain, which no rule may refer to any more.
    pub fn delete_chain(&mut self, table: &Table, name: &str) {
        let attributes = [text(NFTA_CHAIN_TABLE, &table.name), text(NFTA_CHAIN_NAME, name)];
        self.add(table, format!("delete chain {name}"), libc::NFT_MSG_DELCHAIN, 0, &attributes);
    }

    /// Appends a rule to a chain.
    pub fn add_rule(&mut self, table: &Table, chain: &str, rule: &Rule) {
        let mut expressions = Vec::new();
        for part in rule {
            let mut anonymous = |map: &AnonymousMap| self.add_anonymous(table, map);
            expressions.extend(expressions::of(part, table.family, &mut anonymous));
        }
        let attributes = [
            text(NFTA_RULE_TABLE, &table.name),
            text(NFTA_RULE_CHAIN, chain),
            nested(NFTA_RULE_EXPRESSIONS, &expressions),
        ];
        let flags = NLM_F_CREATE | NLM_F_APPEND;
        self.add(table, format!("rule of chain {chain}"), libc::NFT_MSG_NEWRULE, flags, &attributes);
    }

    /// Creates a set or map, unless it exists.
    pub fn add_set(&mut self, table: &Table, set: &Set) {
        let family = table.family;
        let widths = set.fields.iter().map(|field| expressions::width(*field, family));
        let mut flags = 0;
        let (_, mut attributes) = head_of_set(table, &set.name);
        let kind = set.fields.iter().fold(0, |all, field| all << 6 | expressions::nft_type(*field, family));
        attributes.extend([u32_be(NFTA_SET_KEY_TYPE, kind), u32_be(NFTA_SET_KEY_LEN, widths.clone().sum())]);
        if set.intervals {
            flags |= libc::NFT_SET_INTERVAL;
        }
        if set.intervals && is_concatenated(set) {
            flags |= NFT_SET_CONCAT;
            let field = |width| nested(NFTA_LIST_ELEM, &[u32_be(NFTA_SET_FIELD_LEN, width)]);
            let fields = encode(&widths.map(field).collect::<Vec<_>>());
            attributes.push(nested(NFTA_SET_DESC, &[attribute(NFTA_SET_DESC_CONCAT, fields)]));
        }
        if set.verdicts {
            flags |= libc::NFT_SET_MAP;
            attributes.push(u32_be(NFTA_SET_DATA_TYPE, libc::NFT_DATA_VERDICT));
        }
        if set.numbers {
            flags |= libc::NFT_SET_MAP;
            attributes.extend([
                u32_be(NFTA_SET_DATA_TYPE, expressions::nft_type(Field::Mark, family)),
                u32_be(NFTA_SET_DATA_LEN, expressions::width(Field::Mark, family)),
            ]);
        }
        if let Some(after) = set.timeout {
            flags |= libc::NFT_SET_TIMEOUT | libc::NFT_SET_EVAL;
            attributes.push(u64_be(NFTA_SET_TIMEOUT, milliseconds(after)));
        }
        attributes.push(u32_be(NFTA_SET_FLAGS, flags.cast_unsigned()));
        self.add(table, format!("set {}", set.name), libc::NFT_MSG_NEWSET, NLM_F_CREATE, &attributes);
    }

    /// Removes a set, which no rule may refer to any more.
    pub fn delete_set(&mut self, table: &Table, name: &str) {
        let attributes = [text(NFTA_SET_TABLE, &table.name), text(NFTA_SET_NAME, name)];
        self.add(table, format!("delete set {name}"), libc::NFT_MSG_DELSET, 0, &attributes);
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
        let all: Vec<_> = elements.into_iter().flat_map(|element| elements_of(element, set)).collect();
        self.listed(table, &set.name, &all, add);
    }

    /// Adds the elements of another table's set to a set with timeouts: with their remaining time, but not more than
    /// this set's timeout.
    pub fn add_remembered(&mut self, table: &Table, set: &Set, all: &[TimedElement]) {
        let most = set.timeout.unwrap_or_default();
        let element = |one: &TimedElement| {
            let expires = u64_be(NFTA_SET_ELEM_EXPIRATION, milliseconds(one.expires.min(most)));
            nested(NFTA_LIST_ELEM, &[key_of(&one.key.0), expires])
        };
        let all: Vec<_> = all.iter().map(element).collect();
        self.listed(table, &set.name, &all, true);
    }

    fn listed(&mut self, table: &Table, set: &str, all: &[DefaultNla], add: bool) {
        let (kind, flags) =
            if add { (libc::NFT_MSG_NEWSETELEM, NLM_F_CREATE) } else { (libc::NFT_MSG_DELSETELEM, 0) };
        for some in chunks(all) {
            let attributes = [
                text(NFTA_SET_ELEM_LIST_TABLE, &table.name),
                text(NFTA_SET_ELEM_LIST_SET, set),
                nested(NFTA_SET_ELEM_LIST_ELEMENTS, some),
            ];
            self.add(table, format!("elements of set {set}"), kind, flags, &attributes);
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
            None => (libc::NFT_DATA_VERDICT, 0),
        };
        let flags = libc::NFT_SET_ANONYMOUS | libc::NFT_SET_CONSTANT | libc::NFT_SET_MAP;
        attributes.extend([
            u32_be(NFTA_SET_KEY_TYPE, 4),
            u32_be(NFTA_SET_KEY_LEN, map.key_bytes),
            u32_be(NFTA_SET_FLAGS, flags.cast_unsigned()),
            u32_be(NFTA_SET_DATA_TYPE, data_type),
            attribute(NFTA_SET_USERDATA, NUMBERS_AS_THEY_ARE),
        ]);
        if data_bytes > 0 {
            attributes.push(u32_be(NFTA_SET_DATA_LEN, data_bytes));
        }
        let begin = self.messages.len();
        self.add(table, "map of a rule".to_owned(), libc::NFT_MSG_NEWSET, NLM_F_CREATE, &attributes);
        let element =
            |(key, value): &(Key, Value)| nested(NFTA_LIST_ELEM, &[key_of(&key.0), value_of(value)]);
        let all: Vec<_> = map.elements.iter().map(element).collect();
        for some in chunks(&all) {
            let attributes = [
                text(NFTA_SET_ELEM_LIST_TABLE, &table.name),
                text(NFTA_SET_ELEM_LIST_SET, ANONYMOUS),
                u32_be(NFTA_SET_ELEM_LIST_SET_ID, number),
                nested(NFTA_SET_ELEM_LIST_ELEMENTS, some),
            ];
            let step = "elements of the map of a rule".to_owned();
            self.add(table, step, libc::NFT_MSG_NEWSETELEM, NLM_F_CREATE, &attributes);
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

    fn add(&mut self, table: &Table, step: String, kind: c_int, flags: u16, attributes: &[DefaultNla]) {
        let bytes = request(table.family, kind, flags, attributes);
        self.bytes += bytes.len();
        self.messages.push(Message { bytes, step, with_next: false });
    }
}

/// Splits elements into chunks that fit into one message each.
fn chunks(elements: &[DefaultNla]) -> Vec<&[DefaultNla]> {
    let (mut all, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (place, element) in elements.iter().enumerate() {
        let own = element.buffer_len();
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
fn head_of_set(table: &Table, name: &str) -> (u32, Vec<DefaultNla>) {
    let number = SETS.fetch_add(1, Ordering::Relaxed);
    let attributes =
        vec![text(NFTA_SET_TABLE, &table.name), text(NFTA_SET_NAME, name), u32_be(NFTA_SET_ID, number)];
    (number, attributes)
}

/// Returns true if the keys are ranges of several fields, which the kernel stores differently than ranges of one field.
fn is_concatenated(set: &Set) -> bool {
    set.fields.len() > 1
}

/// Returns the kernel's form of an element: two elements for a range of one field, its start and the value after its
/// end.
fn elements_of(element: &Element, set: &Set) -> Vec<DefaultNla> {
    let mut own = vec![key_of(&element.key.0)];
    own.extend(element.value.as_ref().map(value_of));
    let last = &element.last.as_ref().unwrap_or(&element.key).0;
    if set.intervals && is_concatenated(set) {
        own.push(nested(NFTA_SET_ELEM_KEY_END, &[expressions::attribute_value(last)]));
    }
    let mut all = vec![nested(NFTA_LIST_ELEM, &own)];
    if set.intervals
        && !is_concatenated(set)
        && let Some(next) = after(last)
    {
        let flags = u32_be(NFTA_SET_ELEM_FLAGS, libc::NFT_SET_ELEM_INTERVAL_END.cast_unsigned());
        all.push(nested(NFTA_LIST_ELEM, &[key_of(&next), flags]));
    }
    all
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

fn key_of(key: &[u8]) -> DefaultNla {
    nested(NFTA_SET_ELEM_KEY, &[expressions::attribute_value(key)])
}

fn value_of(value: &Value) -> DefaultNla {
    let data = match value {
        Value::Verdict(verdict) => expressions::data_of_verdict(verdict),
        Value::Key(key) => expressions::attribute_value(&key.0),
    };
    nested(NFTA_SET_ELEM_DATA, &[data])
}

/// Returns milliseconds as the kernel counts timeouts.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
