//! Limits on the bytes of stored objects, so that writes cannot exhaust memory: one limit for all objects together, and
//! one for the kinds that controllers create from templates, such as pods, because a small manifest can request very
//! many of them.
//!
//! Concurrent writes may together exceed a limit, each by at most one object.

use k8s_openapi::api::core::v1::Node;

use super::{Api, ApiError, Part};
use object::quantity::Amount;
use object::{Kind, Object};

/// The default of `limits.storeBytes`.
const STORE_BYTES: usize = 512 << 20;
/// Kinds that controllers create from templates.
const TEMPLATE_COPIES: [Kind; 5] =
    [Kind::Pod, Kind::PersistentVolumeClaim, Kind::Job, Kind::ReplicaSet, Kind::ControllerRevision];
/// The default of `limits.templateCopyBytes`: the share that is independent of the nodes.
const COPY_BYTES: usize = 32 << 20;
/// The additional bytes for each pod that the nodes may run: a usual pod takes a quarter of it.
const COPY_BYTES_PER_NODE_POD: usize = 16 << 10;

/// Writes of a status may exceed the limit by one part in this many, so that the status of existing objects
/// can still be written.
const STATUS_RESERVE: usize = 8;

/// Refuses a write that exceeds a limit. Writes that do not enlarge an object are accepted, and so are the
/// API's own writes: deletion marks must always succeed.
pub(super) fn check(api: &Api, part: Part, new: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    let more = new.size().saturating_sub(old.map_or(0, Object::size));
    if more == 0 || part == Part::System {
        return Ok(());
    }
    let limits = &api.inner.config.limits;
    let mut most = limits.store_bytes.unwrap_or(STORE_BYTES);
    if part == Part::Status {
        most = most.saturating_add(most / STATUS_RESERVE);
    }
    if most > 0 && api.store().all_bytes() + more > most {
        return Err(ApiError::Failure("etcdserver: mvcc: database space exceeded".into()));
    }
    if old.is_some() || !TEMPLATE_COPIES.contains(&new.kind()) || limits.template_copy_bytes == Some(0) {
        return Ok(());
    }
    let bytes = api.store().bytes(TEMPLATE_COPIES) + more;
    let fits = |most: usize| bytes <= most;
    match limits.template_copy_bytes {
        Some(most) if fits(most) => Ok(()),
        Some(most) => Err(copies_too_large(new, most)),
        None if fits(COPY_BYTES) => Ok(()),
        None => {
            let most = COPY_BYTES.saturating_add(pods_of_nodes(api).saturating_mul(COPY_BYTES_PER_NODE_POD));
            if fits(most) { Ok(()) } else { Err(copies_too_large(new, most)) }
        }
    }
}

fn copies_too_large(new: &Object, most: usize) -> ApiError {
    ApiError::forbidden(
        new.kind(),
        new.name(),
        format!(
            "pods, claims, Jobs, ReplicaSets and ControllerRevisions may take at most {most} bytes together \
             (limits.templateCopyBytes in the config file; by default {COPY_BYTES} plus {COPY_BYTES_PER_NODE_POD} for \
             each pod that the nodes may run)"
        ),
    )
}

/// Returns the number of pods that all nodes may run together.
pub(super) fn pods_of_nodes(api: &Api) -> usize {
    let pods_of = |node: &Node| {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        usize::try_from(Amount::in_list(allocatable, "pods").units()).unwrap_or(0)
    };
    let nodes = api.list_as::<Node>(None);
    nodes.iter().map(|node| pods_of(node)).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use serde_json::json;

    use super::*;
    use crate::test_api::api_with;
    use crate::{ApiConfig, DeleteOptions};
    use object::Key;
    use object::config::Limits;

    fn cluster(limits: Limits) -> Api {
        api_with(ApiConfig { limits, ..ApiConfig::default() }, &["ns"])
    }

    fn config_map(api: &Api, name: &str, bytes: usize) -> Result<(), ApiError> {
        let map = json!({"metadata": {"name": name, "namespace": "ns"}, "data": {"a": "x".repeat(bytes)}});
        api.create_as::<ConfigMap>(serde_json::from_value(map).unwrap()).map(drop)
    }

    fn pod(api: &Api, name: &str, bytes: usize) -> Result<(), ApiError> {
        let pod = json!({"metadata": {"name": name, "namespace": "ns"},
            "spec": {"containers": [{"name": "c", "image": "x", "args": ["x".repeat(bytes)]}]}});
        api.create_as::<Pod>(serde_json::from_value(pod).unwrap()).map(drop)
    }

    /// SAFE-10: the state is limited in bytes; deleting or shrinking objects frees space.
    #[tokio::test(start_paused = true)]
    async fn the_state_takes_so_many_bytes_and_no_more_safe_10() {
        let api = cluster(Limits { store_bytes: Some(100_000), ..Limits::default() });
        config_map(&api, "a", 60_000).unwrap();
        let refused = config_map(&api, "b", 60_000).unwrap_err();
        assert_eq!(
            (refused.code(), refused.to_string().as_str()),
            (500, "etcdserver: mvcc: database space exceeded")
        );
        config_map(&api, "b", 20_000).unwrap();
        let resize = |to: usize| {
            api.modify::<ConfigMap>(&Key::new("ns", "a"), |map| {
                map.data.get_or_insert_default().insert("a".into(), "x".repeat(to));
                Ok(())
            })
        };
        assert!(resize(90_000).is_err());
        resize(10_000).unwrap();
        config_map(&api, "c", 60_000).unwrap();
        assert!(config_map(&api, "d", 30_000).is_err());
        api.delete(Kind::ConfigMap, &Key::new("ns", "b"), &DeleteOptions::default()).unwrap();
        config_map(&api, "d", 20_000).unwrap();
        let unlimited = cluster(Limits { store_bytes: Some(0), ..Limits::default() });
        config_map(&unlimited, "a", 1_000_000).unwrap();
    }

    /// A template of a megabyte is not copied a thousand times.
    #[tokio::test(start_paused = true)]
    async fn copies_of_templates_take_so_many_bytes_and_no_more_safe_10() {
        let api = cluster(Limits { template_copy_bytes: Some(10_000), ..Limits::default() });
        pod(&api, "a", 6_000).unwrap();
        let refused = pod(&api, "b", 6_000).unwrap_err();
        assert_eq!(refused.code(), 403);
        assert!(refused.to_string().contains("may take at most 10000 bytes together"), "{refused}");
        // Other kinds are not limited as copies, and existing objects may still report their status.
        config_map(&api, "c", 60_000).unwrap();
        api.modify_status::<Pod>(&Key::new("ns", "a"), |pod| {
            pod.status.get_or_insert_default().message = Some("x".repeat(10_000));
            Ok(())
        })
        .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn unless_it_is_set_the_room_for_copies_follows_the_nodes_safe_10() {
        let api = cluster(Limits::default());
        // Creates pods of one megabyte until one is refused.
        let taken = |letter: &str| {
            (0..100).take_while(|n| pod(&api, &format!("{letter}{n}"), 1 << 20).is_ok()).count()
        };
        assert_eq!(taken("p"), 31);
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "640"}}});
        api.create_as::<Node>(serde_json::from_value(node).unwrap()).unwrap();
        assert_eq!(taken("q"), 10);
    }
}
