//! An API in memory on the manual clock, for the tests of this crate.

use k8s_openapi::api::core::v1::Namespace;

use crate::{Api, ApiConfig};
use base::clock::Clock;
use object::Key;
use store::Store;

/// Returns an API with these namespaces.
pub(crate) fn api(namespaces: &[&str]) -> Api {
    api_with(ApiConfig::default(), namespaces)
}

/// Returns an API with this configuration and these namespaces.
pub(crate) fn api_with(config: ApiConfig, namespaces: &[&str]) -> Api {
    let api =
        Api::new(Store::ephemeral(), Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap()), config);
    for name in namespaces {
        let metadata = Key::new("", *name).metadata();
        api.create_as(Namespace { metadata, ..Namespace::default() }).unwrap();
    }
    api
}

/// Returns the configuration without these admission plugins.
pub(crate) fn without_admission(plugins: &[&str]) -> ApiConfig {
    let disabled_admission = plugins.iter().map(ToString::to_string).collect();
    ApiConfig { disabled_admission, ..ApiConfig::default() }
}
