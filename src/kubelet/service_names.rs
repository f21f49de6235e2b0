//! Maintains services in the hosts files of pods that cannot reach the cluster's DNS (NET-3).
//!
//! An ordinary user's DNS server may not bind port 53, and resolv.conf cannot name another. Pods with a mount namespace
//! then find services in their hosts file, which is rewritten whenever services change. Sets of pods behind headless
//! services have no line there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::context::Context;
use super::node::Node;
use super::sandbox::{needs_service_lines, service_lines, with_services};

/// The wait after a change of a service, since changes come in bursts.
const BURST: Duration = Duration::from_millis(50);

/// The lines for a pod of this namespace, empty if its node does not need them.
pub(super) fn lines_for(context: &Context, node: &Node, namespace: &str) -> String {
    if !needs_service_lines(&node.config) {
        return String::new();
    }
    service_lines(&context.services.list(), namespace, &node.config.domain)
}

/// Follows the services for a node's pods.
pub(super) async fn follow(context: &Context, node: &Node) {
    let changed = Arc::new(Notify::new());
    let weak = Arc::downgrade(&changed);
    context.services.on_change(move |_| {
        if let Some(changed) = weak.upgrade() {
            changed.notify_one();
        }
    });
    loop {
        changed.notified().await;
        tokio::time::sleep(BURST).await;
        // An unresponsive node is retried at the next change, and at its pods' next start.
        let Ok(sandboxes) = node.runtime.list().await else { continue };
        for sandbox in sandboxes.into_iter().filter(|sandbox| sandbox.ready) {
            let Some(hosts) = &sandbox.spec.hosts else { continue };
            let lines = lines_for(context, node, &sandbox.spec.namespace);
            let written = node.runtime.write_hosts(&sandbox.spec.pod_uid, with_services(hosts, &lines)).await;
            if let Err(error) = written {
                tracing::debug!(pod = sandbox.spec.pod_uid, "cannot write the hosts file: {error}");
            }
        }
    }
}
