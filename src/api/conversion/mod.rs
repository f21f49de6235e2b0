//! Conversion of custom resources to another version than the one they are stored in: relabelled if their
//! definition states that all versions are alike, else converted by its webhook.
//!
//! Objects stay as they were stored. When they are read, they are converted and given defaults that the
//! schema gained since, and the next write stores them in the definition's storage version. Reads wait for
//! the webhook without a thread ([`Api::in_version`]); writes, which are synchronous, hold one, under a
//! permit (`apiserver::webhook_queue`). No lock is held meanwhile. Actors of this process read and write objects
//! as they are stored, without conversion.

mod cache;
mod owners;
mod restore_metadata;
mod review;
mod time_budget;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::metrics::{ConversionCall, ConversionFailure};
use crate::served_kinds::{Conversion, ConversionWebhook, Defaults, Definition};
use crate::webhook_client::{Call, CallerKind, truncate_error};
use crate::{Api, ApiError, deadline};
pub(crate) use cache::Cache;
use kinds::ServedSchema;
use object::{Object, ServedKind, split_api_version};
pub(crate) use owners::OwnerConverter;
use restore_metadata::ConvertedObject;
use time_budget::TimeBudget;

/// Kubernetes' timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The limits of a call: objects, and approximate bytes; at least one object is sent.
const MAX_CALL_OBJECTS: usize = 500;
const MAX_CALL_BYTES: usize = 1024 * 1024;
/// The limit on the converted objects of a call: several times what a call carries, with an object of the
/// largest size.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// The permitted source of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A cached conversion of the same version of the object will do: for lists and watches, which many
    /// clients request, and always of stored objects.
    Cached,
    /// The webhook itself, not cached: the result of a dry run has the revision of the stored object without
    /// being it, so no other request may see it.
    Uncached,
}

impl Api {
    /// Returns stored objects of one kind in a version; those in that version already are returned as they
    /// are.
    pub async fn in_version(
        &self,
        objects: Vec<Arc<Object>>,
        served: ServedKind,
        source: Source,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        let mut work = match self.conversion(objects, served, Defaults::Filled)? {
            Ok(work) => work,
            Err(objects) => return Ok(objects),
        };
        let definition = work.definition.clone();
        let Conversion::Webhook(webhook) = &definition.conversion else { return Ok(work.objects) };
        if source == Source::Cached {
            // Cached objects need no call and no permit.
            work.take_cached(&self.inner.converted);
        }
        let mut budget = TimeBudget::of_request();
        while !work.missing.is_empty() {
            let _permit = budget.acquire_permit(&webhook.permits).await?;
            if source == Source::Cached {
                // A request that had the permit before may have converted the same objects.
                work.take_cached(&self.inner.converted);
            }
            let Some(review) = work.next_review(self) else { break };
            let timeout = budget.remaining()?.min(TIMEOUT);
            let answer = match work.call(self, webhook, &review, timeout) {
                Ok(call) => {
                    let (answer, time) = self.inner.caller.execute(call).await;
                    budget.waited(time);
                    answer
                }
                Err(why) => Err(why),
            };
            let places = review.indices.clone();
            work.finish(self, webhook, review, answer)?;
            if source == Source::Cached {
                work.remember(&self.inner.converted, &places);
            }
        }
        Ok(work.objects)
    }

    /// As [`Api::in_version`], but blocks the caller's thread, uses no cache, and accepts objects that are
    /// not stored yet.
    pub fn in_version_now(
        &self,
        objects: Vec<Arc<Object>>,
        served: ServedKind,
        defaults: Defaults,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        let mut work = match self.conversion(objects, served, defaults)? {
            Ok(work) => work,
            Err(objects) => return Ok(objects),
        };
        let definition = work.definition.clone();
        let Conversion::Webhook(webhook) = &definition.conversion else { return Ok(work.objects) };
        while let Some(review) = work.next_review(self) {
            let remaining = deadline::remaining_time();
            if remaining.is_some_and(|patience| patience.is_zero()) {
                return Err(too_late());
            }
            let (timeout, who) = match remaining {
                Some(patience) => (patience.min(TIMEOUT), CallerKind::Request),
                None => (TIMEOUT, CallerKind::Actor),
            };
            let answer = match work.call(self, webhook, &review, timeout) {
                Ok(call) => {
                    let (mut answers, time) =
                        self.inner.caller.wait_for(who, vec![Call { of: webhook.callee.clone(), call }]);
                    deadline::waited(time);
                    answers.pop().unwrap_or_else(|| Err("the call was cancelled".into()))
                }
                Err(why) => Err(why),
            };
            work.finish(self, webhook, review, answer)?;
        }
        Ok(work.objects)
    }

    /// Returns one object in a version; blocks the caller's thread.
    pub(crate) fn convert_one<'a>(
        &self,
        object: &'a Object,
        served: ServedKind,
    ) -> Result<Cow<'a, Object>, ApiError> {
        if is_in(object, served) {
            return Ok(Cow::Borrowed(object));
        }
        let converted = self.in_version_now(vec![Arc::new(object.clone())], served, Defaults::Filled)?;
        match converted.into_iter().next() {
            Some(converted) => Ok(Cow::Owned(Arc::unwrap_or_clone(converted))),
            None => Ok(Cow::Borrowed(object)),
        }
    }

    /// Returns the conversion to do; the objects themselves if there is none.
    fn conversion(
        &self,
        objects: Vec<Arc<Object>>,
        served: ServedKind,
        defaults: Defaults,
    ) -> Result<Result<ConversionBatch, Vec<Arc<Object>>>, ApiError> {
        let kinds = self.kinds();
        // No definition describes the kind any more.
        let Some(definition) = kinds.definition(served.kind()) else { return Ok(Err(objects)) };
        let schema = kinds.schema(served);
        if objects.iter().all(|object| is_in(object, served) && !lacks_defaults(schema, defaults, object)) {
            return Ok(Err(objects));
        }
        ConversionBatch::new(definition, served, defaults, objects).map(Ok)
    }
}

/// Returns true if an object lacks a default that its schema gained after the object was stored; Kubernetes
/// fills in such defaults on reads.
fn lacks_defaults(schema: Option<&ServedSchema>, defaults: Defaults, object: &Object) -> bool {
    let Some((schema, custom)) = schema.zip(object.custom()) else { return false };
    defaults == Defaults::Filled && schema.lacks_defaults(&custom.fields)
}

/// Returns true if an object is in a version. Also true for built-in kinds, which are converted without this
/// module.
fn is_in(object: &Object, served: ServedKind) -> bool {
    match (served, object.custom()) {
        (ServedKind::Custom(..), Some(custom)) => {
            split_api_version(custom.api_version()) == (served.group(), served.version())
        }
        _ => true,
    }
}

fn too_late() -> ApiError {
    ApiError::Timeout("request did not complete within requested timeout".into())
}

/// Objects that are being converted to a version.
struct ConversionBatch {
    definition: Arc<Definition>,
    served: ServedKind,
    /// The version's index in the definition.
    version: usize,
    defaults: Defaults,
    objects: Vec<Arc<Object>>,
    /// Indexes of the objects that are still to be converted.
    missing: VecDeque<usize>,
}

/// One review of some of the objects.
struct Review {
    uid: String,
    indices: Vec<usize>,
    /// On the monotonic clock.
    started_at: Duration,
}

impl ConversionBatch {
    /// Creates the batch; conversions that need no webhook are done at once.
    fn new(
        definition: &Arc<Definition>,
        served: ServedKind,
        defaults: Defaults,
        objects: Vec<Arc<Object>>,
    ) -> Result<Self, ApiError> {
        let known = |api_version: &str| {
            let version = split_api_version(api_version).1;
            definition.versions.iter().position(|known| known.name == version)
        };
        let invalid = |how: &str, api_version: &str| {
            ApiError::Failure(format!("request to convert CR {how} an invalid group/version: {api_version}"))
        };
        let to = served.api_version();
        let version = known(&to).ok_or_else(|| invalid("to", &to))?;
        let missing = VecDeque::new();
        let mut work = Self { definition: definition.clone(), served, version, defaults, objects, missing };
        for place in 0..work.objects.len() {
            let object = &work.objects[place];
            if is_in(object, served) {
                if lacks_defaults(Some(definition.versions[version].strategy.schema()), defaults, object) {
                    work.objects[place] = Arc::new(work.relabelled(object));
                }
                continue;
            }
            match &definition.conversion {
                Conversion::None => work.objects[place] = Arc::new(work.relabelled(object)),
                Conversion::Webhook(_) => {
                    let from = object.api_version();
                    known(&from).ok_or_else(|| invalid("from", &from))?;
                    work.missing.push_back(place);
                }
            }
        }
        Ok(work)
    }

    /// Returns the object with the version's name, pruned to the version's fields and with its defaults.
    fn relabelled(&self, object: &Object) -> Object {
        let mut next = object.clone();
        if let Some(custom) = next.custom_mut() {
            custom.set_api_version(self.served.api_version());
        }
        self.definition.coerce(self.version, self.defaults, &mut next);
        next
    }

    fn key(&self, object: &Object) -> cache::Key {
        (self.definition.id, self.version, object.uid().into(), object.revision())
    }

    fn take_cached(&mut self, cache: &Cache) {
        let missing = std::mem::take(&mut self.missing);
        for place in missing {
            match cache.get(&self.key(&self.objects[place])) {
                Some(known) => self.objects[place] = known,
                None => self.missing.push_back(place),
            }
        }
    }

    /// Caches converted objects; a conversion preserves the uid and the revision that identify them.
    fn remember(&self, cache: &Cache, places: &[usize]) {
        for object in places.iter().map(|place| &self.objects[*place]) {
            cache.put(self.key(object), object.clone());
        }
    }

    /// Returns the next review; `None` if no objects remain.
    fn next_review(&mut self, api: &Api) -> Option<Review> {
        let (mut places, mut bytes) = (Vec::new(), 0);
        while let Some(place) = self.missing.front() {
            bytes += self.objects[*place].size();
            if !places.is_empty() && (bytes > MAX_CALL_BYTES || places.len() == MAX_CALL_OBJECTS) {
                break;
            }
            places.extend(self.missing.pop_front());
        }
        let (uid, started_at) = (base::random::uuid(), api.server_clock().monotonic());
        (!places.is_empty()).then_some(Review { uid, indices: places, started_at })
    }

    fn call(
        &self,
        api: &Api,
        webhook: &ConversionWebhook,
        review: &Review,
        timeout: Duration,
    ) -> Result<impl Future<Output = Result<Bytes, String>> + Send + 'static + use<>, String> {
        let target = webhook.target.as_ref().map_err(Clone::clone)?;
        let version = review::version(&webhook.review_versions)?;
        let objects = review.indices.iter().map(|place| &*self.objects[*place]);
        let body = review::request(version, &review.uid, &self.served.api_version(), objects);
        target.call(api, body.into(), timeout, MAX_RESPONSE_BYTES)
    }

    /// Replaces the objects with their conversions, and records metrics of the call.
    fn finish(
        &mut self,
        api: &Api,
        webhook: &ConversionWebhook,
        review: Review,
        response: Result<Bytes, String>,
    ) -> Result<(), ApiError> {
        let Some(first) = review.indices.first().map(|place| self.objects[*place].clone()) else {
            return Ok(());
        };
        let (kind, from, to) = (first.kind().info(), first.api_version(), self.served.version());
        let seconds = api.server_clock().monotonic().saturating_sub(review.started_at).as_secs_f64();
        let result = self.settle(webhook, review, response);
        let failure = result.as_ref().err().map(|(failure, _)| *failure);
        let definition = format!("{}.{}", kind.plural, kind.group);
        let call = ConversionCall { definition: &definition, from: split_api_version(&from).1, to, seconds };
        api.metrics().conversions.record_call(call, failure);
        result.map_err(|(_, why)| {
            let (name, why) = (kind.name, truncate_error(why));
            ApiError::Failure(format!("conversion webhook for {from}, Kind={name} {why}"))
        })
    }

    fn settle(
        &mut self,
        webhook: &ConversionWebhook,
        review: Review,
        response: Result<Bytes, String>,
    ) -> Result<(), (ConversionFailure, String)> {
        let Review { uid, indices: places, .. } = review;
        let failed = |reason: String| format!("failed: {reason}");
        let body = response.map_err(|why| (ConversionFailure::Call, failed(why)))?;
        let read =
            review::version(&webhook.review_versions).and_then(|version| review::read(version, &uid, &body));
        let converted = read.map_err(|why| (ConversionFailure::Malformed, failed(why)))?;
        if converted.len() != places.len() {
            let counts = format!("returned {} objects, expected {}", converted.len(), places.len());
            return Err((ConversionFailure::Partial, counts));
        }
        let is_only = places.len() == 1;
        for (i, (place, value)) in places.into_iter().zip(converted).enumerate() {
            let original = &self.objects[place];
            let ConvertedObject(mut object) =
                restore_metadata::restore_metadata(original, value, &self.served.api_version()).map_err(
                    |fault| (ConversionFailure::InvalidObject, fault.message((!is_only).then_some(i))),
                )?;
            self.definition.coerce(self.version, self.defaults, &mut object);
            self.objects[place] = Arc::new(object);
        }
        Ok(())
    }
}
