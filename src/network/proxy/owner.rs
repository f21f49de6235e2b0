//! For whom the proxy listens: services, and pods with ports of their node.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::host_ports::{self, HostPorts};
use super::mirror::{self, Mirrors};
use super::table::{self, Listener};
use crate::follow::{Follower, Joined};
use crate::machine::Machine;
use object::low_ports::LowPorts;
use object::{Key, Object, Shared};

/// Whose a bind address is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Owner {
    Service(Key),
    Pod(Key),
}

/// `service default/web`
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(key) => write!(f, "service {key}"),
            Self::Pod(key) => write!(f, "pod {key}"),
        }
    }
}

/// An owner as it is now.
pub(super) enum Changed {
    Service(Key, Joined),
    Pod(Key, Option<Shared<Pod>>),
}

/// Where an owner is to be served.
pub(super) struct DesiredListeners {
    pub(super) owner: Owner,
    /// Whom events are about; none when it is gone.
    pub(super) object: Option<Arc<Object>>,
    pub(super) listeners: Vec<Listener>,
    /// What of it can never be had here.
    pub(super) refused: Vec<String>,
}

impl Changed {
    pub(super) fn wanted(
        self,
        machine: &Machine,
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

/// Everybody the proxy listens for.
pub(super) struct Followed {
    pub(super) services: Arc<Follower>,
    pub(super) pods: Arc<HostPorts>,
}

impl Followed {
    /// Waits for changes and takes all of one sort.
    pub(super) async fn take(&self) -> Vec<Changed> {
        tokio::select! {
            services = self.services.take() => {
                services.into_iter().map(|(key, joined)| Changed::Service(key, joined)).collect()
            }
            pods = self.pods.take() => pods.into_iter().map(|(key, pod)| Changed::Pod(key, pod)).collect(),
        }
    }

    /// Marks owners for another look.
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
