//! Lists of the past: the state at a revision that the watch history still reaches back to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Api, ApiError};
use object::{Key, Kind, Object, Revision};
use store::{Change, Expired, Snapshot, Visibility};

impl Api {
    /// All objects of a kind, or of one namespace, as they were together at `revision`; an error once history no
    /// longer reaches back to it.
    pub(crate) fn list_at(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        revision: Revision,
    ) -> Result<Snapshot, ApiError> {
        let now = self.list(kind, namespace);
        if revision >= now.revision {
            return Ok(now);
        }
        let changes = self.changes_between(kind, revision, now.revision).map_err(|_| {
            ApiError::Expired(format!("The resourceVersion for the provided list is too old: {revision}"))
        })?;
        let mut objects: BTreeMap<Key, Arc<Object>> = now.objects.into_iter().map(|o| (o.key(), o)).collect();
        let here = |object: &Object| namespace.is_none_or(|n| n == object.namespace());
        for change in changes.into_iter().rev().filter(|change| here(&change.object)) {
            let key = change.object.key();
            match change.previous {
                Some(previous) => objects.insert(key, previous),
                None => objects.remove(&key),
            };
        }
        Ok(Snapshot { revision, objects: objects.into_values().collect() })
    }

    /// Every change after one revision and up to another, oldest first.
    fn changes_between(&self, kind: Kind, after: Revision, until: Revision) -> Result<Vec<Change>, Expired> {
        let mut watcher = self.watch(kind, after, Visibility::Applied);
        let mut all = Vec::new();
        loop {
            let batch = watcher.take()?;
            let last = batch.last().map(|change| change.revision);
            all.extend(batch.into_iter().filter(|change| change.revision <= until));
            if last.is_none_or(|last| last >= until) {
                return Ok(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::{ApiConfig, DeleteOptions};
    use base::clock::Clock;
    use store::Store;

    /// API-FOUND 19: any revision but the newest was answered 410.
    #[tokio::test(start_paused = true)]
    async fn a_list_of_the_past_is_the_state_of_then_until_history_ends_api_2() {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        let namespaces = ["a", "b"].map(|name| json!({"metadata": {"name": name}}));
        for namespace in namespaces {
            api.create_as::<k8s_openapi::api::core::v1::Namespace>(
                serde_json::from_value(namespace).unwrap(),
            )
            .unwrap();
        }
        let map = |namespace: &str, name: &str| -> ConfigMap {
            let manifest: Value = json!({"metadata": {"namespace": namespace, "name": name}});
            serde_json::from_value(manifest).unwrap()
        };
        let shown = |namespace: Option<&str>, revision: Revision| -> Result<Vec<String>, ApiError> {
            let list = api.list_at(Kind::ConfigMap, namespace, revision)?;
            let one = |o: &Arc<Object>| format!("{}@{}", o.key(), o.revision());
            Ok(list.objects.iter().map(one).collect())
        };
        let mut then = Vec::new();
        let mut look = || {
            let revision = api.revision();
            let now = api.list(Kind::ConfigMap, None).objects;
            then.push((
                revision,
                now.iter().map(|o| format!("{}@{}", o.key(), o.revision())).collect::<Vec<_>>(),
            ));
        };
        look();
        for name in ["x", "y", "z"] {
            api.create_as(map("a", name)).unwrap();
            api.create_as(map("b", name)).unwrap();
            look();
        }
        for turn in 0..700 {
            api.modify::<ConfigMap>(&Key::new("a", "x"), |m| {
                m.data = Some(BTreeMap::from([("turn".into(), format!("{turn}"))]));
                Ok(())
            })
            .unwrap();
        }
        look();
        api.delete(Kind::ConfigMap, &Key::new("a", "y"), &DeleteOptions::default()).unwrap();
        look();
        api.create_as(map("a", "y")).unwrap();
        look();
        for (revision, expected) in &then {
            assert_eq!(&shown(None, *revision).unwrap(), expected, "at {revision}");
            let in_b: Vec<_> = expected.iter().filter(|o| o.starts_with("b/")).cloned().collect();
            assert_eq!(shown(Some("b"), *revision).unwrap(), in_b, "at {revision}");
        }
        api.compact(then[2].0);
        assert!(matches!(shown(None, then[1].0), Err(ApiError::Expired(_))));
        assert_eq!(shown(None, then[3].0).unwrap(), then[3].1);
    }
}
