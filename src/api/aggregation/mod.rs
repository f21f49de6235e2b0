//! API groups served by other servers (kube-aggregator): the APIServices, the servers their requests are
//! proxied to, and the discovery of these servers (API-17).
//!
//! This module follows APIServices from the moment they are stored. A controller (`controllers::api_service`)
//! checks the servers with [`Api::probe_api_service`] and reports the result in the status; the HTTP server
//! proxies the requests.
//!
//! Architecture Invariant: built-in groups are served here, even if an APIService for them names another
//! server.

mod discovery;
mod local;
mod probe;
mod remote_server;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use parking_lot::RwLock;

use crate::Api;
use apimachinery::certificates::FrontProxy;
use base::quote::quote;
use object::conditions;
use object::{Key, Kind, Object};

pub use discovery::DiscoveryResult;
pub use local::{AUTOMANAGED, AutomanagedLabel};
use local::{has_built_in, priorities};
pub use remote_server::{RemoteServer, ServerDialer};

/// A group of the API in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// The version's name, e.g. `v1`.
    pub version: String,
}

impl GroupVersion {
    /// Returns a group, empty for the core group, in a version.
    pub fn new(group: &str, version: &str) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses the name of an APIService, `VERSION.GROUP`.
    fn of_name(name: &str) -> Self {
        let (version, group) = name.split_once('.').unwrap_or((name, ""));
        Self::new(group, version)
    }

    /// Returns the name of its APIService.
    fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    /// Returns the path prefix under which this group and version is served.
    fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }
}

/// The position of a group and version among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// The group's priority; the highest among its versions counts.
    pub group: i32,
    /// The version's priority within its group.
    pub version: i32,
}

/// A stored APIService.
#[derive(Clone)]
pub struct ApiService {
    spec: Arc<APIServiceSpec>,
    /// The uid distinguishes the APIService from a later one of the same name.
    uid: String,
    /// Its position among all groups and versions.
    pub priorities: Priorities,
    /// The server to which requests for the group and version are proxied; `None` if they are served here.
    pub remote: Option<Arc<RemoteServer>>,
    /// True if the APIService's status has the condition `Available`.
    pub is_available: bool,
}

/// All stored APIServices.
#[derive(Default)]
pub struct ApiServices {
    services: RwLock<BTreeMap<GroupVersion, ApiService>>,
    /// Created for the first proxied request; again for the next one if that fails.
    front_proxy: OnceLock<Arc<FrontProxy>>,
}

impl ApiServices {
    /// Returns the APIService of a group and version.
    pub fn get(&self, of: &GroupVersion) -> Option<ApiService> {
        self.services.read().get(of).cloned()
    }

    /// Returns true if requests for this group and version are proxied.
    pub fn is_remote(&self, of: &GroupVersion) -> bool {
        self.services.read().get(of).is_some_and(|service| service.remote.is_some())
    }

    /// Returns the APIServices whose requests are proxied.
    pub fn remote(&self) -> Vec<(GroupVersion, ApiService)> {
        let services = self.services.read();
        let remote = services.iter().filter(|(_, service)| service.remote.is_some());
        remote.map(|(of, service)| (of.clone(), service.clone())).collect()
    }

    /// Returns the priorities of a group and version.
    pub fn priorities(&self, of: &GroupVersion) -> Priorities {
        let stored = self.services.read().get(of).map(|service| service.priorities);
        stored.unwrap_or_else(|| priorities(of))
    }
}

impl Api {
    /// Returns the stored APIServices.
    pub fn api_services(&self) -> &ApiServices {
        &self.inner.api_services
    }

    /// Loads every stored APIService.
    pub(crate) fn follow_stored_api_services(&self) {
        for service in self.list(Kind::APIService, None).objects {
            self.api_service_stored(&service);
        }
    }

    /// Follows an APIService that was written or deleted. Other objects are ignored.
    pub(crate) fn api_service_stored(&self, object: &Object) {
        if object.kind() != Kind::APIService {
            return;
        }
        let of = GroupVersion::of_name(object.name());
        // Locked while the APIService is read and applied, so that concurrent writes are applied in their
        // order.
        let mut services = self.inner.api_services.services.write();
        let Ok(stored) = self.get_as::<APIService>(&Key::new("", object.name())) else {
            services.remove(&of);
            return;
        };
        let spec = stored.spec.clone().unwrap_or_default();
        let is_available =
            conditions::is_true(stored.status.as_ref().and_then(|s| s.conditions.as_ref()), "Available");
        if let Some(before) = services.get_mut(&of)
            && *before.spec == spec
            && before.uid == stored.uid()
        {
            before.is_available = is_available;
            return;
        }
        let remote = if has_built_in(&of) { None } else { RemoteServer::of(&of, &spec).map(Arc::new) };
        let priorities = Priorities { group: spec.group_priority_minimum, version: spec.version_priority };
        let uid = stored.uid().to_string();
        services.insert(of, ApiService { spec: Arc::new(spec), uid, priorities, remote, is_available });
    }

    /// Returns the front proxy, whose certificate identifies this API to extension API servers.
    pub fn front_proxy(&self) -> Option<Arc<FrontProxy>> {
        if let Some(given) = &self.inner.config.front_proxy {
            return Some(given.clone());
        }
        let known = &self.inner.api_services.front_proxy;
        if let Some(known) = known.get() {
            return Some(known.clone());
        }
        let made = FrontProxy::ephemeral()
            .inspect_err(|error| tracing::error!("cannot create the front proxy's certificate: {error}"))
            .ok()?;
        Some(known.get_or_init(|| Arc::new(made)).clone())
    }

    /// Checks that the server of this APIService answers discovery for its group and version; the error is
    /// the message for the APIService's status. On success, discovery includes the server's resources; on
    /// failure, the resources of the previous probe become stale.
    ///
    /// Ends within a few seconds.
    pub async fn probe_api_service(&self, name: &str) -> Result<(), String> {
        let of = GroupVersion::of_name(name);
        let remote = self.api_services().get(&of).and_then(|service| service.remote);
        let remote =
            remote.ok_or_else(|| format!("APIService {} does not refer to a service", quote(name)))?;
        let found = probe::probe(self, &of, &remote).await;
        remote.set_discovered(found.as_ref().ok());
        found.map(drop)
    }
}
