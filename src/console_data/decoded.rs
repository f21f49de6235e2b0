//! Typed objects of requests and responses. [`TypedKind::decode`] reads them, so that this crate contains no code of its
//! own for the fields of Kubernetes' types: that code was a quarter of the crate. The requests themselves are of
//! [`JsonObject`]s, so that their code is compiled once and not for each kind.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    Attach, DeleteParams, Execute, ListParams, Log, Patch, PatchParams, Portforward, PostParams,
};
use kube::core::{ApiResource, DynamicResourceScope, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::resource::Uid;
use base::backoff::BackoffPolicy;
use object::names::path_segment;
use object::{Kind, TypedKind};

/// An object of any kind as JSON, without managedFields, which are half of an object and which no caller reads.
#[derive(Clone, Debug)]
pub struct JsonObject {
    /// The object.
    pub json: Value,
    /// Only the revision, which a watcher needs.
    metadata: ObjectMeta,
}

impl JsonObject {
    /// Reads the object as its own type.
    pub fn decode<K: TypedKind>(self) -> kube::Result<K> {
        K::decode(self.json).map_err(kube::Error::SerdeError)
    }

    /// Returns the uid.
    pub fn uid(&self) -> Option<Uid> {
        self.json.pointer("/metadata/uid")?.as_str().map(Uid::from)
    }
}

// For the API of pods.
impl Attach for JsonObject {}
impl Execute for JsonObject {}
impl Log for JsonObject {}
impl Portforward for JsonObject {}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut json = Value::deserialize(deserializer)?;
        let mut metadata = ObjectMeta::default();
        if let Some(Value::Object(fields)) = json.get_mut("metadata") {
            fields.remove("managedFields");
            let revision = fields.get("resourceVersion").and_then(Value::as_str);
            metadata.resource_version = revision.map(str::to_owned);
        }
        Ok(Self { json, metadata })
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl Resource for JsonObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Returns an API of built-in objects: those of one namespace, or all.
pub fn api_of(client: Client, kind: Kind, namespace: Option<&str>) -> Api<JsonObject> {
    api_of_version(client, kind, kind.info().version, namespace)
}

/// Returns an API of objects in a version of their kind: those of one namespace, or all.
pub fn api_of_version(client: Client, kind: Kind, version: &str, namespace: Option<&str>) -> Api<JsonObject> {
    let info = kind.info();
    let gvk = GroupVersionKind::gvk(info.group, version, info.name);
    let resource = ApiResource::from_gvk_with_plural(&gvk, info.plural);
    match namespace {
        None => Api::all_with(client, &resource),
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
    }
}

/// Watches objects and reads them as their own type. After an error the stream pauses before it tries again.
pub fn watch<K: TypedKind>(
    api: Api<JsonObject>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send {
    watcher::watcher(api, config)
        .map(|event| decoded_event(event?).map_err(watcher::Error::WatchFailed))
        .backoff(WatchBackoff::default())
}

/// Watches one object; `None` means that it does not exist. After an error the stream pauses before it tries again.
pub fn watch_object<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = watcher::Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    watcher::watch_object(api, name).backoff(WatchBackoff::default())
}

/// The pauses of a watch after errors. They are short, because a watch without a server looks like one without changes.
const WATCH_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(800), max: Duration::from_secs(4) };

/// The back-off of a watch; any event resets it.
#[derive(Debug, Default)]
pub struct WatchBackoff {
    failures: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        Some(WATCH_BACKOFF.delay(self.failures))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

fn decoded_event<K: TypedKind>(event: Event<JsonObject>) -> kube::Result<Event<K>> {
    Ok(match event {
        Event::Apply(object) => Event::Apply(object.decode()?),
        Event::Delete(object) => Event::Delete(object.decode()?),
        Event::InitApply(object) => Event::InitApply(object.decode()?),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    })
}

/// Requests for objects of one kind. The objects have no managedFields.
pub struct TypedApi<K> {
    api: Api<JsonObject>,
    of: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for TypedApi<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedApi").field(&self.api).finish()
    }
}

impl<K: TypedKind> TypedApi<K> {
    /// The API of all objects.
    pub fn all(client: Client) -> Self {
        Self { api: api_of_version(client, K::kind(), K::version(), None), of: PhantomData }
    }

    /// The API of the objects in a namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self {
        Self { api: api_of_version(client, K::kind(), K::version(), Some(namespace)), of: PhantomData }
    }

    /// Returns the client.
    pub fn into_client(self) -> Client {
        self.api.into_client()
    }

    /// Reads an object.
    pub async fn get(&self, name: &str) -> kube::Result<K> {
        self.api.get(&path_segment(name)).await?.decode()
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get_opt(&self, name: &str) -> kube::Result<Option<K>> {
        self.api.get_opt(&path_segment(name)).await?.map(JsonObject::decode).transpose()
    }

    /// Lists objects.
    pub async fn list(&self, params: &ListParams) -> kube::Result<Vec<K>> {
        self.api.list(params).await?.items.into_iter().map(JsonObject::decode).collect()
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> kube::Result<K> {
        let object = JsonObject { json: object.to_value(), metadata: ObjectMeta::default() };
        self.api.create(&PostParams::default(), &object).await?.decode()
    }

    /// Changes an object by a merge patch.
    pub async fn merge(&self, name: &str, patch: Value) -> kube::Result<K> {
        self.api.patch(&path_segment(name), &PatchParams::default(), &Patch::Merge(patch)).await?.decode()
    }

    /// Deletes an object.
    pub async fn delete(&self, name: &str) -> kube::Result<()> {
        self.api.delete(&path_segment(name), &DeleteParams::default()).await.map(drop)
    }
}

/// Reads an object from its JSON text.
pub(crate) fn from_slice<K: TypedKind>(text: &[u8]) -> serde_json::Result<K> {
    K::decode(serde_json::from_slice(text)?)
}

/// Reads the objects of a list from its JSON text.
pub(crate) fn list_from_str<K: TypedKind>(text: &str) -> serde_json::Result<Vec<K>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Value>,
    }
    let list: List = serde_json::from_str(text)?;
    list.items.into_iter().map(K::decode).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;

    use super::*;

    /// Counts the requests of a stream within 10 s, to a server that refuses each of them.
    async fn refused_requests<T>(open: impl FnOnce(Api<JsonObject>) -> T) -> usize
    where
        T: Stream,
    {
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = requests.clone();
        let service = tower::service_fn(move |_: http::Request<Body>| {
            seen.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Infallible>(http::Response::builder().status(403).body(Body::empty()).unwrap()) }
        });
        let api = api_of(Client::new(service, "default"), Kind::Pod, Some("default"));
        // Without pauses the stream is always ready, and the paused clock would stand still: the limit ends the test.
        let mut events = pin!(open(api).take(200));
        let all = async { while events.next().await.is_some() {} };
        let end = tokio::time::timeout(Duration::from_secs(10), all).await;
        assert!(end.is_err(), "the stream does not pause after an error");
        requests.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_watch_pauses_before_it_tries_again_con_18() {
        let requests = refused_requests(|api| watch::<Pod>(api, watcher::Config::default())).await;
        assert!((2..=13).contains(&requests), "{requests} requests for pods");
        let requests = refused_requests(|api| watch_object(api, "web")).await;
        assert!((2..=13).contains(&requests), "{requests} requests for a pod");
    }

    #[test]
    fn a_watch_pauses_at_most_four_seconds_and_an_event_resets_its_pause_con_18() {
        let mut backoff = WatchBackoff::default();
        for _ in 0..2 {
            let pauses = backoff.by_ref().take(5).map(|pause| pause.as_millis());
            assert_eq!(pauses.collect::<Vec<_>>(), [800, 1_600, 3_200, 4_000, 4_000]);
            backoff.reset();
        }
    }
}
