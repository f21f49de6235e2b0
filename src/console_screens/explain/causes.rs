//! The causes that keep several pods from being ready, each once with its pods, the most frequent first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{Event, Pod};
use regex::Regex;

use super::chain::{Chain, Countdown, Link, Warning};
use base::sort::SliceOrder;
use console_data::pod_status;
use console_data::resource::{ObjectRef, Uid};
use console_data::store::StoredObject;
use console_toolkit::text::{counted, without_amounts};

/// Maximum number of examined pods; the others are counted.
const PODS: usize = 200;
/// Maximum number of listed causes; the others are counted.
const CAUSES: usize = 12;
/// Maximum number of pods listed for each cause; the others are counted.
const NAMES: usize = 12;

/// Matches text that differs between pods with the same cause: counts of events, ids of containers, uids.
static DIFFERENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"×\d+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{12,64}\b")
        .expect("a pattern")
});

/// A cause, in the words of the first pod that has it.
struct Cause {
    links: Vec<Link>,
    first: ObjectRef,
    pods: Vec<String>,
    /// The earliest countdown of any of the pods.
    countdown: Option<Countdown>,
}

impl Chain<'_, '_> {
    /// Adds the causes that keep these pods from being ready.
    pub(super) fn causes(&mut self, depth: usize, pods: &[&Pod]) {
        let looked_at = &pods[..pods.len().min(PODS)];
        let namespaces: BTreeSet<_> = looked_at.iter().map(|pod| &pod.metadata.namespace).collect();
        let warnings = self.newest_warnings(looked_at);
        let mut causes: Vec<Cause> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for pod in looked_at {
            let object = ObjectRef::of(self.cx.catalogue.kind::<Pod>(), *pod);
            let warning = object.uid.as_ref().and_then(|uid| warnings.get(uid)).cloned();
            let name = match &object.namespace {
                Some(namespace) if namespaces.len() > 1 => format!("{namespace}/{}", object.name),
                _ => object.name.clone(),
            };
            for links in self.causes_of_one(pod, &object, warning) {
                let countdown = links.first().and_then(|link| link.countdown);
                let at = *known.entry(key(&links, pod)).or_insert(causes.len());
                if at == causes.len() {
                    causes.push(Cause { links, first: object.clone(), pods: Vec::new(), countdown: None });
                }
                let Some(cause) = causes.get_mut(at) else { continue };
                cause.countdown = cause.countdown.into_iter().chain(countdown).min();
                if cause.pods.last() != Some(&name) {
                    cause.pods.push(name.clone());
                }
            }
        }
        causes.order_by_key(|cause| Reverse(cause.pods.len()));
        let more = causes.len().saturating_sub(CAUSES);
        for cause in causes.into_iter().take(CAUSES) {
            self.cause(depth, cause);
        }
        if more > 0 {
            self.add_more(depth, format!("and {}", counted(more, "more cause")));
        }
        if pods.len() > looked_at.len() {
            let others = counted(pods.len() - looked_at.len(), "more pod");
            self.add_more(depth, format!("and {others} not ready"));
        }
    }

    fn cause(&mut self, depth: usize, cause: Cause) {
        let Cause { links, first, pods, countdown } = cause;
        let several = pods.len() > 1;
        for (at, mut link) in links.into_iter().enumerate() {
            if several {
                link.text = in_general(&link.text, &first).into_owned();
            }
            link.depth += depth;
            if at > 0 {
                self.links.push(link);
                continue;
            }
            let subject = match pods.as_slice() {
                [one] => format!("Pod {one}"),
                all => counted(all.len(), "pod"),
            };
            link.text = format!("{subject}: {}", link.text);
            link.countdown = countdown;
            link.object.get_or_insert_with(|| first.clone());
            self.links.push(link);
            if several {
                let more = pods.len().saturating_sub(NAMES);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let names = pods.get(..NAMES).unwrap_or(&pods).join(", ");
                self.add_more(depth + 1, format!("{names}{more}"));
                self.last_object(first.clone());
            }
        }
    }

    /// Returns the causes of one pod, each with its details.
    fn causes_of_one(&self, pod: &Pod, object: &ObjectRef, warning: Option<Warning>) -> Vec<Vec<Link>> {
        let mut chain = Chain { cx: self.cx, links: Vec::new() };
        chain.causes_of(0, pod, object, warning);
        if chain.links.is_empty() {
            let status = pod_status::of(pod);
            chain.add(0, status.health, status.status);
        }
        let mut causes: Vec<Vec<Link>> = Vec::new();
        for link in chain.links {
            match causes.last_mut() {
                Some(cause) if link.depth > 0 => cause.push(link),
                _ => causes.push(vec![link]),
            }
        }
        causes
    }

    /// Returns the newest warning about each of these pods, found in one pass over the events.
    fn newest_warnings(&self, pods: &[&Pod]) -> HashMap<Uid, Warning> {
        let uids = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref());
        let mut newest: HashMap<&str, Option<StoredObject<'_, Event>>> =
            uids.map(|uid| (uid, None)).collect();
        for event in self.cx.stores.events().entries().filter(|event| event.summary.is_warning()) {
            let about = event.summary.about_uid.as_deref().and_then(|uid| newest.get_mut(uid));
            let Some(known) = about else { continue };
            let order = |event: &StoredObject<'_, Event>| (event.summary.last_seen, event.revision);
            if known.as_ref().is_none_or(|known| order(known) < order(&event)) {
                *known = Some(event);
            }
        }
        let warnings = newest.into_iter().filter_map(|(uid, event)| {
            let summary = &event?.summary;
            let warning = self.warning(&summary.reason, &summary.message, summary.count, summary.last_seen);
            Some((Uid::from(uid), warning))
        });
        warnings.collect()
    }
}

/// Returns the text that pods with the same cause have in common.
fn key(links: &[Link], pod: &Pod) -> String {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
    let name = pod.metadata.name.as_deref();
    let mut key = String::new();
    for link in links.iter().filter(|link| link.log.is_none()) {
        let mut text = link.text.clone();
        for own in [name, address].into_iter().flatten().filter(|own| !own.is_empty()) {
            text = text.replace(own, "…");
        }
        let text = without_amounts(&text);
        key.push_str(&DIFFERENT.replace_all(&text, "#"));
        key.push('\n');
    }
    key
}

/// Returns the text about one pod with its name and uid replaced by `…`, so that the text fits several pods.
fn in_general<'a>(text: &'a str, pod: &ObjectRef) -> Cow<'a, str> {
    let uid = pod.uid.as_ref().map_or("", Uid::as_str);
    let own = [pod.name.as_str(), uid].into_iter().filter(|own| !own.is_empty() && text.contains(own));
    own.fold(Cow::Borrowed(text), |text, own| Cow::Owned(text.replace(own, "…")))
}
