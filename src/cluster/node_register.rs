//! The nodes that this control plane runs, by address, for components that open sockets in a node's network.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fabric::SocketKind;
use parking_lot::Mutex;
use tokio::sync::Notify;

use base::task::Tasks;
use kubelet::runtime::NodeSockets;

/// The running nodes, by their addresses.
#[derive(Default)]
pub(super) struct NodeRegister(Arc<RegisterState>);

#[derive(Default)]
struct RegisterState {
    nodes: Mutex<BTreeMap<Ipv4Addr, NodeSockets>>,
    /// Nodes whose networks have changed, not yet reported.
    renewed: Mutex<BTreeSet<Ipv4Addr>>,
    changed: Notify,
}

impl NodeRegister {
    /// Records that a node runs; replaces an earlier node with this address.
    pub(super) fn add(&self, ip: Ipv4Addr, sockets: NodeSockets, tasks: &Tasks) {
        let mut renewals = sockets.renewed();
        self.0.nodes.lock().insert(ip, sockets);
        self.0.notify(ip);
        let known = self.0.clone();
        tasks.spawn("network of a node", async move {
            while renewals.changed().await.is_ok() {
                known.notify(ip);
            }
        });
    }

    pub(super) async fn socket(&self, node: Ipv4Addr, kind: SocketKind) -> io::Result<OwnedFd> {
        let sockets = self.0.nodes.lock().get(&node).cloned();
        let sockets = sockets.ok_or_else(|| io::Error::other(format!("no node {node} runs here")))?;
        sockets.open(kind).await
    }

    /// Waits for a node whose network may have changed, and returns its address. Only one task may wait at a time.
    pub(super) async fn renewed(&self) -> Ipv4Addr {
        loop {
            let changed = self.0.changed.notified();
            let renewed = self.0.renewed.lock().pop_first();
            if let Some(renewed) = renewed {
                return renewed;
            }
            changed.await;
        }
    }
}

impl RegisterState {
    fn notify(&self, ip: Ipv4Addr) {
        self.renewed.lock().insert(ip);
        self.changed.notify_one();
    }
}
