//! The owners of the proxy's listeners: services, and pods with ports.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::host_ports::{self, HostPorts};
use super::mirror::{self, Mirrors};
use super::table::{self, Listener};
use crate::{Follower, NetworkTopology, ServiceEndpoints};
use object::low_ports::LowPorts;
use object::{Key, Object, SharedObject};

/// The owner of a bind address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Owner {
    Service(Key),
    Pod(Key),
}

/// Formats the owner as `service default/web`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(key) => write!(f, "service {key}"),
            Self::Pod(key) => write!(f, "pod {key}"),
        }
    }
}

/// A changed owner in its current state.
pub(super) enum OwnerChange {
    Service(Key, ServiceEndpoints),
    Pod(Key, Option<SharedObject<Pod>>),
}

/// The desired listeners of an owner.
pub(super) struct DesiredListeners {
    pub(super) owner: Owner,
    /// The object that events refer to; `None` if it was deleted.
    pub(super) object: Option<Arc<Object>>,
    pub(super) listeners: Vec<Listener>,
    /// Messages about ports that can never be served here.
    pub(super) refused: Vec<String>,
}

impl OwnerChange {
    pub(super) fn desired_addresses(
        self,
        machine: &NetworkTopology,
        low_ports: LowPorts,
        mirrors: Option<&Mirrors>,
    ) -> DesiredListeners {
        match self {
            Self::Service(key, joined) => DesiredListeners {
                owner: Owner::Service(key),
                listeners: match mirrors {
                    Some(mirrors) => mirror::of_service(&joined, mirrors),
                    None => table::listeners(&joined, machine, low_ports),
                },
                object: joined.service.map(|service| service.object().clone()),
                refused: Vec::new(),
            },
            Self::Pod(key, pod) => {
                let none = || (Vec::new(), Vec::new());
                let (listeners, refused) = pod.as_ref().map_or_else(none, |pod| match mirrors {
                    Some(mirrors) => (mirror::of_pod(pod, mirrors), Vec::new()),
                    None => host_ports::listeners(pod, machine, low_ports),
                });
                let object = pod.map(|pod| pod.object().clone());
                DesiredListeners { owner: Owner::Pod(key), object, listeners, refused }
            }
        }
    }
}

/// The followed services and pods.
pub(super) struct OwnerSources {
    pub(super) services: Arc<Follower>,
    pub(super) pods: Arc<HostPorts>,
}

impl OwnerSources {
    /// Waits for changes, and takes all changed services or all changed pods.
    pub(super) async fn take(&self) -> Vec<OwnerChange> {
        tokio::select! {
            services = self.services.take() => {
                services.into_iter().map(|(key, joined)| OwnerChange::Service(key, joined)).collect()
            }
            pods = self.pods.take() => pods.into_iter().map(|(key, pod)| OwnerChange::Pod(key, pod)).collect(),
        }
    }

    /// Marks owners as changed.
    pub(super) fn mark(&self, owners: impl IntoIterator<Item = Owner>) {
        let (mut services, mut pods) = (Vec::new(), Vec::new());
        for owner in owners {
            match owner {
                Owner::Service(key) => services.push(key),
                Owner::Pod(key) => pods.push(key),
            }
        }
        self.services.mark(services);
        self.pods.mark(pods);
    }
}
