//! Reads the kernel's state: tables, and the elements of sets with timeouts.

use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_netfilter::nftables::{
    DataAttribute, ListAttribute, NfTablesMessage, SetAttribute, SetElementAttribute, SetElementList,
    SetElementMessage, SetFlags, SetMessage, TableAttribute, TableMessage,
};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterMessageInner};

use super::batch::{Nft, encoded, proto_family};
use super::model::{Family, Key, Table, TimedElement};
use crate::FabricError;

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
        let message = NfTablesMessage::GetTable(TableMessage { attributes: Vec::new() });
        let mut tables = Vec::new();
        self.list("list tables", family, message, |message| {
            let NfTablesMessage::NewTable(table) = message else { return };
            let name = table.attributes.into_iter().find_map(|attribute| match attribute {
                TableAttribute::Name(name) => Some(name),
                _ => None,
            });
            tables.extend(name.map(|name| Table { family, name }));
        })?;
        Ok(tables)
    }

    /// The sets of a table that have a name.
    pub fn sets(&self, table: &Table) -> Result<Vec<SetFacts>, FabricError> {
        let attributes = vec![SetAttribute::Table(table.name.clone())];
        let mut sets = Vec::new();
        self.list(
            "list sets",
            table.family,
            NfTablesMessage::GetSet(SetMessage { attributes }),
            |message| {
                let NfTablesMessage::NewSet(set) = message else { return };
                let (mut name, mut forgets, mut elements) = (None, false, None);
                for attribute in set.attributes {
                    match attribute {
                        SetAttribute::Name(own) => name = Some(own),
                        SetAttribute::Flags(flags) => forgets = flags.contains(SetFlags::Timeout),
                        SetAttribute::Count(count) => elements = Some(count),
                        _ => {}
                    }
                }
                let name = name.filter(|name| !name.starts_with("__"));
                sets.extend(name.map(|name| SetFacts { name, forgets, elements }));
            },
        )?;
        Ok(sets)
    }

    /// The current elements of a set with timeouts.
    pub fn remembered(&self, table: &Table, set: &str) -> Result<Vec<TimedElement>, FabricError> {
        let attributes = vec![SetElementList::Table(table.name.clone()), SetElementList::Set(set.to_owned())];
        let message = NfTablesMessage::GetSetElement(SetElementMessage { attributes });
        let mut all = Vec::new();
        self.list(&format!("list elements of set {set}"), table.family, message, |message| {
            let NfTablesMessage::NewSetElement(some) = message else { return };
            for attribute in some.attributes {
                let SetElementList::Elements(elements) = attribute else { continue };
                all.extend(elements.into_iter().filter_map(|element| match element {
                    ListAttribute::Element(attributes) => remembered(attributes),
                    _ => None,
                }));
            }
        })?;
        Ok(all)
    }

    fn list(
        &self,
        step: &str,
        family: Family,
        message: NfTablesMessage,
        mut take: impl FnMut(NfTablesMessage),
    ) -> Result<(), FabricError> {
        let header = NetfilterHeader::new(proto_family(family), 0, 0);
        let request = encoded(NetfilterMessage::new(header, message), NLM_F_REQUEST | NLM_F_DUMP);
        let listed = self.socket.dump(&request, |bytes| {
            let Ok(message) = NetlinkMessage::<NetfilterMessage>::deserialize(bytes) else { return };
            if let NetlinkPayload::InnerMessage(message) = message.payload
                && let NetfilterMessageInner::NfTables(message) = message.inner
            {
                take(message);
            }
        });
        listed.map_err(FabricError::at(step))
    }
}

/// Returns an element with its remaining time; `None` if it is just expiring.
fn remembered(attributes: Vec<SetElementAttribute>) -> Option<TimedElement> {
    let (mut key, mut expires) = (None, None);
    for attribute in attributes {
        match attribute {
            SetElementAttribute::Key(DataAttribute::Value(bytes)) => key = Some(Key(bytes)),
            SetElementAttribute::Expiration(milliseconds) => expires = Some(milliseconds),
            _ => {}
        }
    }
    let expires = Duration::from_millis(expires.filter(|left| *left > 0)?);
    Some(TimedElement { key: key?, expires })
}
