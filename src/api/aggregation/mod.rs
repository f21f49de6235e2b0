//! Groups of the API that other servers serve (kube-aggregator): which APIServices there are, whom their requests are passed
//! on to, and what is known of what these serve (API-17).
//!
//! Here it is followed what is stored, from the moment it is stored. Whether a server answers is found out by a controller
//! (`controllers::api_service`), which asks by [`Api::probe_api_service`] and says so in the status; passing requests on is
//! the HTTP server's.
//!
//! Architecture Invariant: what is built in is served here, whatever APIService is stored for it.

mod discovered;
mod local;
mod probe;
mod remote;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use parking_lot::RwLock;

use crate::Api;
use crate::certificates::FrontProxy;
use base::quote::quote;
use object::conditions;
use object::{Key, Kind, Object};

pub(crate) use discovered::Discovered;
pub use local::{AUTOMANAGED, Automanaged};
use local::{has_built_in, priorities};
pub(crate) use remote::Remote;

/// A group of the API in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupVersion {
    /// Empty for the core.
    pub(crate) group: String,
    pub(crate) version: String,
}

impl GroupVersion {
    pub(crate) fn new(group: &str, version: &str) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// By the name of its APIService, `VERSION.GROUP`.
    fn of_name(name: &str) -> Self {
        let (version, group) = name.split_once('.').unwrap_or((name, ""));
        Self::new(group, version)
    }

    /// The name of its APIService.
    fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    /// The path below which it is served.
    fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }
}

/// Where a group and version stand among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priorities {
    /// Of the group, of which the highest of its versions counts.
    pub(crate) group: i32,
    /// Of the version in its group.
    pub(crate) version: i32,
}

/// An APIService as it is stored.
#[derive(Clone)]
pub(crate) struct ApiService {
    spec: Arc<APIServiceSpec>,
    /// Tells it from another of its name.
    uid: String,
    pub(crate) priorities: Priorities,
    /// Whom its requests go to; none = they are answered here.
    pub(crate) remote: Option<Arc<Remote>>,
    /// By its status.
    pub(crate) is_available: bool,
}

/// All APIServices.
#[derive(Default)]
pub(crate) struct ApiServices {
    services: RwLock<BTreeMap<GroupVersion, ApiService>>,
    /// Made for the first request that is passed on; none where no certificate can be made.
    front_proxy: OnceLock<Option<Arc<FrontProxy>>>,
}

impl ApiServices {
    /// That of a group and version.
    pub(crate) fn get(&self, of: &GroupVersion) -> Option<ApiService> {
        self.services.read().get(of).cloned()
    }

    /// Whether requests for it are passed on.
    pub(crate) fn is_remote(&self, of: &GroupVersion) -> bool {
        self.services.read().get(of).is_some_and(|service| service.remote.is_some())
    }

    /// Those whose requests are passed on.
    pub(crate) fn remote(&self) -> Vec<(GroupVersion, ApiService)> {
        let services = self.services.read();
        let remote = services.iter().filter(|(_, service)| service.remote.is_some());
        remote.map(|(of, service)| (of.clone(), service.clone())).collect()
    }

    /// Where a group and version stand among others.
    pub(crate) fn priorities(&self, of: &GroupVersion) -> Priorities {
        let stored = self.services.read().get(of).map(|service| service.priorities);
        stored.unwrap_or_else(|| priorities(of))
    }
}

impl Api {
    pub(crate) fn api_services(&self) -> &ApiServices {
        &self.inner.api_services
    }

    /// Follows every APIService that is stored.
    pub(crate) fn follow_stored_api_services(&self) {
        for service in self.list(Kind::APIService, None).objects {
            self.api_service_stored(&service);
        }
    }

    /// An APIService was written, or is gone. Any other object is none of this one's business.
    pub(crate) fn api_service_stored(&self, object: &Object) {
        if object.kind() != Kind::APIService {
            return;
        }
        let of = GroupVersion::of_name(object.name());
        // Held while it is read and taken over, so that the last to write one is the last to be followed.
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
        let remote = if has_built_in(&of) { None } else { Remote::of(&of, &spec).map(Arc::new) };
        let priorities = Priorities { group: spec.group_priority_minimum, version: spec.version_priority };
        let uid = stored.uid().to_string();
        services.insert(of, ApiService { spec: Arc::new(spec), uid, priorities, remote, is_available });
    }

    /// By whose certificate extending servers know this API.
    pub fn front_proxy(&self) -> Option<Arc<FrontProxy>> {
        let made = || match &self.inner.config.front_proxy {
            Some(given) => Some(given.clone()),
            None => FrontProxy::ephemeral()
                .inspect_err(|error| tracing::error!("no front proxy could be made: {error}"))
                .ok()
                .map(Arc::new),
        };
        self.inner.api_services.front_proxy.get_or_init(made).clone()
    }

    /// Whether the server of the APIService of this name answers as a server of its group must; the error is told in its
    /// status. What it says that it serves is shown in discovery from now on; what it said before is stale when it fails.
    ///
    /// Ends within some seconds.
    pub async fn probe_api_service(&self, name: &str) -> Result<(), String> {
        let of = GroupVersion::of_name(name);
        let remote = self.api_services().get(&of).and_then(|service| service.remote);
        let remote = remote.ok_or_else(|| format!("APIService {} has no server", quote(name)))?;
        let found = probe::probe(self, &of, &remote).await;
        remote.set_discovered(found.as_ref().ok());
        found.map(drop)
    }
}
