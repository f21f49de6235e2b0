//! Reads the kernel's state: tables, and the elements of sets with timeouts.

use std::time::Duration;

use libc::c_int;
use netlink_packet_core::{DefaultNla, NLM_F_DUMP, parse_string, parse_u32_be, parse_u64_be};

use super::attributes::{
    NFTA_DATA_VALUE, NFTA_LIST_ELEM, NFTA_SET_COUNT, NFTA_SET_ELEM_EXPIRATION, NFTA_SET_ELEM_KEY,
    NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_ELEM_LIST_SET, NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_FLAGS,
    NFTA_SET_NAME, NFTA_SET_TABLE, NFTA_TABLE_NAME,
};
use super::batch::{Nft, request};
use super::model::{Family, Key, Table, TimedElement};
use crate::FabricError;
use crate::netlink::message::{NFGENMSG_BYTES, attributes, find, netfilter_type, text};

/// An existing set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFacts {
    /// Its name.
    pub name: String,
    /// True if its elements expire.
    pub forgets: bool,
    /// The number of its elements; kernels before 6.16 do not report it.
    pub elements: Option<u32>,
}

impl Nft {
    /// The existing tables of a family.
    pub fn tables(&self, family: Family) -> Result<Vec<Table>, FabricError> {
        let mut tables = Vec::new();
        let kinds = (libc::NFT_MSG_GETTABLE, libc::NFT_MSG_NEWTABLE);
        self.list("list tables", family, kinds, &[], |table| {
            let name = find(table, NFTA_TABLE_NAME).and_then(|name| parse_string(name).ok());
            tables.extend(name.map(|name| Table { family, name }));
        })?;
        Ok(tables)
    }

    /// The sets of a table that have a name.
    pub fn sets(&self, table: &Table) -> Result<Vec<SetFacts>, FabricError> {
        let mut sets = Vec::new();
        let kinds = (libc::NFT_MSG_GETSET, libc::NFT_MSG_NEWSET);
        let of_table = [text(NFTA_SET_TABLE, &table.name)];
        self.list("list sets", table.family, kinds, &of_table, |set| {
            sets.extend(facts(set).filter(|set| !set.name.starts_with("__")));
        })?;
        Ok(sets)
    }

    /// The current elements of a set with timeouts.
    pub fn remembered(&self, table: &Table, set: &str) -> Result<Vec<TimedElement>, FabricError> {
        let mut all = Vec::new();
        let kinds = (libc::NFT_MSG_GETSETELEM, libc::NFT_MSG_NEWSETELEM);
        let of_set = [text(NFTA_SET_ELEM_LIST_TABLE, &table.name), text(NFTA_SET_ELEM_LIST_SET, set)];
        self.list(&format!("list elements of set {set}"), table.family, kinds, &of_set, |some| {
            let elements = attributes(find(some, NFTA_SET_ELEM_LIST_ELEMENTS).unwrap_or_default());
            let elements = elements.filter(|(kind, _)| *kind == NFTA_LIST_ELEM);
            all.extend(elements.filter_map(|(_, element)| remembered(element)));
        })?;
        Ok(all)
    }

    /// Requests a list and passes the attributes of each item to `take`. The types of the request and of its responses
    /// are among `NFT_MSG_*`.
    fn list(
        &self,
        step: &str,
        family: Family,
        (get, new): (c_int, c_int),
        of: &[DefaultNla],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), FabricError> {
        let listed = self.socket.dump(&request(family, get, NLM_F_DUMP, of), |message| {
            if message.kind == netfilter_type(libc::NFNL_SUBSYS_NFTABLES, new) {
                take(message.attributes(NFGENMSG_BYTES));
            }
        });
        listed.map_err(FabricError::at(step))
    }
}

/// Returns a set with its facts.
fn facts(set: &[u8]) -> Option<SetFacts> {
    let number = |kind| find(set, kind).and_then(|value| parse_u32_be(value).ok());
    let timeout = libc::NFT_SET_TIMEOUT.cast_unsigned();
    Some(SetFacts {
        name: parse_string(find(set, NFTA_SET_NAME)?).ok()?,
        forgets: number(NFTA_SET_FLAGS).is_some_and(|flags| flags & timeout != 0),
        elements: number(NFTA_SET_COUNT),
    })
}

/// Returns an element with its remaining time; `None` if it is just expiring.
fn remembered(element: &[u8]) -> Option<TimedElement> {
    let key = find(find(element, NFTA_SET_ELEM_KEY)?, NFTA_DATA_VALUE)?;
    let milliseconds = parse_u64_be(find(element, NFTA_SET_ELEM_EXPIRATION)?).ok()?;
    let expires = Duration::from_millis(milliseconds);
    (milliseconds > 0).then(|| TimedElement { key: Key(key.to_vec()), expires })
}
