//! Translates statements of rules to the kernel's expressions, which work on registers: numbers and layouts are those
//! of `linux/netfilter/nf_tables.h`.

use std::net::SocketAddr;
use std::sync::OnceLock;

use netlink_packet_core::DefaultNla;

use super::attributes::{
    NFTA_DATA_VALUE, NFTA_DATA_VERDICT, NFTA_EXPR_DATA, NFTA_EXPR_NAME, NFTA_LIST_ELEM, NFTA_VERDICT_CHAIN,
    NFTA_VERDICT_CODE,
};
use super::model::{Family, Field, Key, Reject, Statement, Value, Verdict};
use crate::netlink::message::{attribute, nested, octets, text, u32_be, u64_be};

/// The first register of four bytes (`NFT_REG32_00`).
const FIRST: u32 = 8;
/// The register of verdicts (`NFT_REG_VERDICT`).
const VERDICT: u32 = 0;

/// A map inside a rule that the batch has to create for it.
pub(super) struct AnonymousMap {
    /// The size of a key in bytes.
    pub(super) key_bytes: u32,
    /// The size of a value in bytes; `None` means that the values are verdicts.
    pub(super) value_bytes: Option<u32>,
    pub(super) elements: Vec<(Key, Value)>,
}

/// The name by which a rule's expressions refer to its map.
pub(super) const ANONYMOUS: &str = "__map%d";

/// Returns the expressions of a statement; `anonymous` creates a map for it and returns its number in the batch.
pub(super) fn of(
    part: &Statement,
    family: Family,
    anonymous: &mut impl FnMut(&AnonymousMap) -> u32,
) -> Vec<DefaultNla> {
    match part {
        Statement::Is(fields, key) => with(load(fields, family), compare(key, 0)),
        Statement::IsNot(fields, key) => with(load(fields, family), compare(key, 1)),
        Statement::In(fields, set) => with(load(fields, family), lookup(set, None, None, false)),
        Statement::NotIn(fields, set) => with(load(fields, family), lookup(set, None, None, true)),
        Statement::HasBits(field, bits) => {
            let mut all = load(&[*field], family);
            let number = |bits: u32| attribute_value(&bits.to_ne_bytes());
            all.push(expression(
                "bitwise",
                &[u32_be(1, FIRST), u32_be(2, FIRST), u32_be(3, 4), at(4, &number(*bits)), at(5, &number(0))],
            ));
            with(all, compare(&Key::new().number(0), 1))
        }
        Statement::OfTransparentSocket => {
            let socket = expression("socket", &[u32_be(1, 0), u32_be(2, FIRST)]);
            with(vec![socket], compare(&Key(vec![1]), 0))
        }
        Statement::SpoofedSource => {
            // The result is the index of the incoming link if it leads to the sender, otherwise 0.
            let (by_sender, by_link, link) = (1, 8, 1);
            let attributes = [u32_be(1, FIRST), u32_be(2, link), u32_be(3, by_sender | by_link)];
            with(vec![expression("fib", &attributes)], compare(&Key::new().number(0), 0))
        }
        Statement::Dispatch(fields, map) => {
            with(load(fields, family), lookup(map, None, Some(VERDICT), false))
        }
        Statement::DispatchBy(fields, numbers, verdicts) => {
            let mut all = load(fields, family);
            all.push(lookup(numbers, None, Some(FIRST), false));
            with(all, lookup(verdicts, None, Some(VERDICT), false))
        }
        Statement::Verdict(verdict) => vec![immediate(VERDICT, &data_of_verdict(verdict))],
        Statement::Dnat(to) => {
            let port = FIRST + address_words(family);
            vec![
                immediate(FIRST, &attribute_value(&octets(to.ip()))),
                immediate(port, &attribute_value(&to.port().to_be_bytes())),
                dnat(family, FIRST, port),
            ]
        }
        Statement::DnatAmong(targets) => {
            let value = |to: &SocketAddr| Value::Key(Key::new().ip(to.ip()).port(to.port()));
            let elements = numbered(targets.iter().map(value));
            let value_bytes = Some(4 * (address_words(family) + 1));
            let map = anonymous(&AnonymousMap { key_bytes: 4, value_bytes, elements });
            vec![
                number_generator(targets.len()),
                lookup(ANONYMOUS, Some(map), Some(FIRST), false),
                dnat(family, FIRST, FIRST + address_words(family)),
            ]
        }
        Statement::VerdictAmong(verdicts) => {
            let elements = numbered(verdicts.iter().cloned().map(Value::Verdict));
            let map = anonymous(&AnonymousMap { key_bytes: 4, value_bytes: None, elements });
            vec![number_generator(verdicts.len()), lookup(ANONYMOUS, Some(map), Some(VERDICT), false)]
        }
        Statement::Masquerade => vec![expression("masq", &[])],
        Statement::Tproxy(to) => {
            let port = FIRST + address_words(family);
            vec![
                immediate(FIRST, &attribute_value(&octets(to.ip()))),
                immediate(port, &attribute_value(&to.port().to_be_bytes())),
                expression("tproxy", &[u32_be(1, family.number().into()), u32_be(2, FIRST), u32_be(3, port)]),
            ]
        }
        Statement::SetMark(mark) => vec![
            immediate(FIRST, &attribute_value(&mark.to_ne_bytes())),
            expression("meta", &[u32_be(2, META_MARK), u32_be(3, FIRST)]),
        ],
        Statement::Reject(how) => vec![reject(*how, family)],
        Statement::NoTrack => vec![expression("notrack", &[])],
        Statement::BytesPerSecondOver(bytes) => vec![expression(
            "limit",
            &[
                u64_be(1, *bytes),
                u64_be(2, 1),
                // The burst that is allowed, in bytes.
                u32_be(3, u32::try_from(bytes / 10).unwrap_or(u32::MAX).max(20_000)),
                u32_be(4, 1),
                u32_be(5, 1),
            ],
        )],
        Statement::PerMilleOfPackets(share) => {
            let random = expression("numgen", &[u32_be(1, FIRST), u32_be(2, 1000), u32_be(3, 1)]);
            // The kernel compares bytes from the left: the number has to be big-endian.
            let order = expression(
                "byteorder",
                &[u32_be(1, FIRST), u32_be(2, FIRST), u32_be(3, 1), u32_be(4, 4), u32_be(5, 4)],
            );
            let less = expression(
                "cmp",
                &[u32_be(1, FIRST), u32_be(2, 2), at(3, &attribute_value(&share.to_be_bytes()))],
            );
            vec![random, order, less]
        }
        Statement::Remember(fields, set) => {
            with(load(fields, family), expression("dynset", &[text(1, set), u32_be(3, 1), u32_be(4, FIRST)]))
        }
    }
}

/// Returns the data of a verdict, for rules and elements.
pub(super) fn data_of_verdict(verdict: &Verdict) -> DefaultNla {
    let (code, chain): (i32, Option<&str>) = match verdict {
        Verdict::Drop => (libc::NF_DROP, None),
        Verdict::Accept => (libc::NF_ACCEPT, None),
        Verdict::Return => (libc::NFT_RETURN, None),
        Verdict::Jump(chain) => (libc::NFT_JUMP, Some(chain)),
        Verdict::Goto(chain) => (libc::NFT_GOTO, Some(chain)),
    };
    let mut parts = vec![u32_be(NFTA_VERDICT_CODE, code.cast_unsigned())];
    parts.extend(chain.map(|chain| text(NFTA_VERDICT_CHAIN, chain)));
    nested(NFTA_DATA_VERDICT, &parts)
}

/// Returns the data of a value.
pub(super) fn attribute_value(bytes: &[u8]) -> DefaultNla {
    attribute(NFTA_DATA_VALUE, bytes)
}

/// Returns the size in bytes of a field's value in registers and keys.
pub(super) fn width(field: Field, family: Family) -> u32 {
    match field {
        Field::SourceAddress | Field::DestinationAddress => 4 * address_words(family),
        Field::Link => 16,
        _ => 4,
    }
}

/// Returns the type as which nft prints a field.
pub(super) fn nft_type(field: Field, family: Family) -> u32 {
    match field {
        Field::SourceAddress | Field::DestinationAddress if family == Family::V4 => 7,
        Field::SourceAddress | Field::DestinationAddress => 8,
        Field::Protocol => 12,
        Field::SourcePort | Field::DestinationPort => 13,
        Field::Mark => 19,
        Field::Link => 41,
        Field::ConnectionState => 26,
        Field::ConnectionStatus => 28,
    }
}

fn address_words(family: Family) -> u32 {
    match family {
        Family::V4 => 1,
        Family::V6 => 4,
    }
}

const META_MARK: u32 = 3;
const META_LINK: u32 = 6;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// Loads fields into consecutive registers.
fn load(fields: &[Field], family: Family) -> Vec<DefaultNla> {
    let mut register = FIRST;
    let mut loaded = Vec::new();
    for field in fields {
        let payload = |base, offset, bytes| {
            let parts = [u32_be(1, register), u32_be(2, base), u32_be(3, offset), u32_be(4, bytes)];
            expression("payload", &parts)
        };
        let connection = |key| expression("ct", &[u32_be(1, register), u32_be(2, key)]);
        let (source, destination, bytes) = match family {
            Family::V4 => (12, 16, 4),
            Family::V6 => (8, 24, 16),
        };
        loaded.push(match field {
            Field::SourceAddress => payload(NETWORK_HEADER, source, bytes),
            Field::DestinationAddress => payload(NETWORK_HEADER, destination, bytes),
            Field::Protocol => expression("meta", &[u32_be(1, register), u32_be(2, META_PROTOCOL)]),
            Field::SourcePort => payload(TRANSPORT_HEADER, 0, 2),
            Field::DestinationPort => payload(TRANSPORT_HEADER, 2, 2),
            Field::Mark => expression("meta", &[u32_be(1, register), u32_be(2, META_MARK)]),
            Field::Link => expression("meta", &[u32_be(1, register), u32_be(2, META_LINK)]),
            Field::ConnectionState => connection(0),
            Field::ConnectionStatus => connection(2),
        });
        register += width(*field, family) / 4;
    }
    loaded
}

/// Compares the registers with a key; `how` is 0 for equal, 1 for not equal.
fn compare(key: &Key, how: u32) -> DefaultNla {
    expression("cmp", &[u32_be(1, FIRST), u32_be(2, how), at(3, &attribute_value(&key.0))])
}

fn lookup(set: &str, number: Option<u32>, to: Option<u32>, inverted: bool) -> DefaultNla {
    let mut parts = vec![text(1, set), u32_be(2, FIRST)];
    parts.extend(to.map(|register| u32_be(3, register)));
    parts.extend(number.map(|number| u32_be(4, number)));
    if inverted {
        parts.push(u32_be(5, 1));
    }
    expression("lookup", &parts)
}

/// Returns an expression for a number below `count`, the next one for each packet.
fn number_generator(count: usize) -> DefaultNla {
    let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
    expression("numgen", &[u32_be(1, FIRST), u32_be(2, count), u32_be(3, 0)])
}

fn numbered(values: impl Iterator<Item = Value>) -> Vec<(Key, Value)> {
    (0..).zip(values).map(|(number, value)| (Key::new().number(number), value)).collect()
}

fn dnat(family: Family, address: u32, port: u32) -> DefaultNla {
    let parts = [
        u32_be(1, 1),
        u32_be(2, family.number().into()),
        u32_be(3, address),
        u32_be(4, address),
        u32_be(5, port),
        u32_be(6, port),
    ];
    expression("nat", &parts)
}

fn reject(how: Reject, family: Family) -> DefaultNla {
    let (kind, code) = match (how, family) {
        (Reject::Reset, _) => (1, 0),
        (Reject::PortUnreachable, Family::V4) => (0, 3),
        (Reject::PortUnreachable, Family::V6) => (0, 4),
        (Reject::Prohibited, Family::V4) => (0, 13),
        (Reject::Prohibited, Family::V6) => (0, 1),
    };
    expression("reject", &[u32_be(1, kind), attribute(2, [code])])
}

fn immediate(register: u32, data: &DefaultNla) -> DefaultNla {
    expression("immediate", &[u32_be(1, register), at(2, data)])
}

/// Returns data as an attribute of this kind.
fn at(kind: u16, data: &DefaultNla) -> DefaultNla {
    nested(kind, std::slice::from_ref(data))
}

fn expression(name: &str, attributes: &[DefaultNla]) -> DefaultNla {
    let name = if is_withheld(name) { "withheld" } else { name };
    nested(NFTA_LIST_ELEM, &[text(NFTA_EXPR_NAME, name), nested(NFTA_EXPR_DATA, attributes)])
}

/// Returns true if this process is to test its behavior on a kernel without expressions of this name
/// (`PODIUM_KERNEL_WITHOUT`, names separated by commas): it then requests one that no kernel has, and gets the response
/// of a kernel that lacks the module.
fn is_withheld(name: &str) -> bool {
    static WITHHELD: OnceLock<String> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "a variable that is not set withholds nothing")]
    let withheld = WITHHELD.get_or_init(|| std::env::var("PODIUM_KERNEL_WITHOUT").unwrap_or_default());
    !withheld.is_empty() && withheld.split(',').any(|withheld| withheld == name)
}

/// Returns an expression that loads a value, followed by one that examines it.
fn with(mut first: Vec<DefaultNla>, then: DefaultNla) -> Vec<DefaultNla> {
    first.push(then);
    first
}
