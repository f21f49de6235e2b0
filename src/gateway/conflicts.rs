//! Conflicts between listeners at one port.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::listener::{GatewayView, ListenerAddress, ListenerView, Scheme};
use super::problem::Cause;
use object::Key;

/// Marks the listeners that conflict with others. Gateways share the ports of their addresses: of two listeners at one
/// port with the same hostname or different protocols, the older Gateway's is served. `gateways` must be ordered by
/// age, the oldest first.
pub(super) fn find(gateways: &mut [GatewayView]) {
    for gateway in &mut *gateways {
        within(&mut gateway.listeners);
    }
    let mut taken: HashMap<ListenerAddress, (Scheme, HashMap<String, Key>, Key)> = HashMap::new();
    for gateway in gateways.iter_mut().filter(|gateway| gateway.refused.is_none()) {
        let key = gateway.key.clone();
        for listener in &mut gateway.listeners {
            if listener.refused.is_some() || listener.conflict.is_some() {
                continue;
            }
            let at = |ip: &IpAddr| (*ip, listener.port);
            let conflict = gateway.addresses.iter().find_map(|ip| {
                let (scheme, hostnames, first) = taken.get(&at(ip))?;
                if *scheme != listener.scheme {
                    let message = format!(
                        "the older Gateway \"{first}\" uses port {} for another protocol",
                        listener.port
                    );
                    return Some(Cause::new("ProtocolConflict", message));
                }
                let other = hostnames.get(&listener.hostname).filter(|other| **other != key)?;
                let message =
                    format!("the older Gateway \"{other}\" has this hostname at port {}", listener.port);
                Some(Cause::new("HostnameConflict", message))
            });
            if conflict.is_none() {
                for ip in &gateway.addresses {
                    let entry = taken.entry(at(ip));
                    let (_, hostnames, _) =
                        entry.or_insert_with(|| (listener.scheme, HashMap::new(), key.clone()));
                    hostnames.insert(listener.hostname.clone(), key.clone());
                }
            }
            listener.conflict = conflict;
        }
    }
}

/// Marks listeners of one Gateway that cannot be distinguished; none of them is served.
fn within(listeners: &mut [ListenerView]) {
    let mut by_port: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (at, listener) in listeners.iter().enumerate().filter(|(_, listener)| listener.refused.is_none()) {
        by_port.entry(listener.port).or_default().push(at);
    }
    for (port, all) in by_port {
        let schemes_differ = all.iter().any(|at| listeners[*at].scheme != listeners[all[0]].scheme);
        let mut count: HashMap<String, usize> = HashMap::new();
        for at in &all {
            *count.entry(listeners[*at].hostname.clone()).or_default() += 1;
        }
        for at in all {
            let listener = &mut listeners[at];
            if schemes_differ {
                let message = format!("port {port} cannot serve both HTTP and HTTPS");
                listener.conflict = Some(Cause::new("ProtocolConflict", message));
            } else if count.get(&listener.hostname).is_some_and(|count| *count > 1) {
                let message =
                    format!("another listener of this Gateway has the same hostname at port {port}");
                listener.conflict = Some(Cause::new("HostnameConflict", message));
            }
        }
    }
}
