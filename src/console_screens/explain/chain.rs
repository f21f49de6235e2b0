//! The chain of causes: the state that each object reports, and the object that causes it. Reads the stores, changes
//! nothing.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};

use super::logs::{LOGS, LogKey};
use base::sort::SliceOrder;
use console_data::container_state::{self, ContainerFacts};
use console_data::context::Context;
use console_data::pod_status;
use console_data::related;
use console_data::resource::{ObjectRef, Uid};
use console_data::rows::{event, node, workload};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::health::Health;
use object::conditions;

/// One line of the chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// Number of levels below the object in question.
    pub(super) depth: usize,
    /// The health; `None` if the line only adds details to the one above.
    pub(super) health: Option<Health>,
    pub(super) text: String,
    /// The countdown at the end of the text.
    pub(super) countdown: Option<Countdown>,
    /// The object, on its first line.
    pub(super) object: Option<ObjectRef>,
    /// The log to show here, by its last lines.
    pub(super) log: Option<LogKey>,
}

/// A time that a line counts down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Countdown {
    /// The time of the next retry.
    Retry(Timestamp),
    /// The time of what the text names last.
    Event(Timestamp),
}

/// The newest warning about an object, as text.
pub(super) type Warning = (String, Health);

/// The chain being written.
pub(super) struct Chain<'a, 'c> {
    pub(super) cx: &'a Context<'c>,
    pub(super) links: Vec<Link>,
}

/// Explains why an object is not ready; one line if nothing is wrong. Logs are referenced, not read.
pub(super) fn explain(cx: &Context<'_>, target: &ObjectRef) -> Vec<Link> {
    let mut chain = Chain { cx, links: Vec::new() };
    chain.start(target);
    let mut logs = 0;
    chain.links.retain(|link| {
        logs += usize::from(link.log.is_some());
        link.log.is_none() || logs <= LOGS
    });
    chain.links
}

impl<'c> Chain<'_, 'c> {
    pub(super) fn add(&mut self, depth: usize, health: Health, text: impl Into<String>) {
        self.push(depth, Some(health), text);
    }

    /// Adds a line of details to the one above.
    pub(super) fn add_more(&mut self, depth: usize, text: impl Into<String>) {
        self.push(depth, None, text);
    }

    fn push(&mut self, depth: usize, health: Option<Health>, text: impl Into<String>) {
        let text = text.into();
        self.links.push(Link { depth, health, text, countdown: None, object: None, log: None });
    }

    fn start(&mut self, target: &ObjectRef) {
        let uid = target.uid.as_ref();
        let stores = self.cx.stores;
        if target.kind.is::<Pod>() {
            return match uid.and_then(|uid| stores.pods().get(uid)) {
                Some(pod) => self.pod(0, pod),
                None => self.add_deleted(target),
            };
        }
        if target.kind.is::<Deployment>() {
            return match uid.and_then(|uid| stores.deployments().get(uid)) {
                Some(deployment) => self.deployment(target, deployment),
                None => self.add_deleted(target),
            };
        }
        if target.kind.is::<ReplicaSet>() {
            return match uid.and_then(|uid| stores.replica_sets().get(uid)) {
                Some(set) => self.replica_set(0, set),
                None => self.add_deleted(target),
            };
        }
        if target.kind.is::<Node>() {
            match uid.and_then(|uid| stores.nodes().get(uid)) {
                Some(node) => self.node(target, node),
                None => return self.add_deleted(target),
            }
        } else {
            let pods = related::pods_of(self.cx, target);
            let well = pods.iter().filter(|pod| !is_unwell(pod)).count();
            let health = if well == pods.len() { Health::Running } else { Health::Pending };
            self.add(0, health, format!("{}: {well} of {} pods are healthy", target.describe(), pods.len()));
            self.last_object(target.clone());
        }
        let pods = related::pods_of(self.cx, target);
        self.pods(1, pods);
    }

    fn add_deleted(&mut self, target: &ObjectRef) {
        if !self.cx.stores.synced(&target.kind.resource) {
            return self.add(0, Health::Pending, format!("{}: loading …", target.describe()));
        }
        self.add(0, Health::Failed, format!("{} is gone", target.describe()));
    }

    pub(super) fn last_object(&mut self, object: ObjectRef) {
        if let Some(last) = self.links.last_mut() {
            last.object = Some(object);
        }
    }

    fn deployment(&mut self, target: &ObjectRef, deployment: &Deployment) {
        let (word, health) = workload::deployment_state(deployment);
        let status = deployment.status.as_ref();
        let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
        let want = deployment.spec.replicas.unwrap_or(1);
        self.add(0, health, format!("{}: {word}, {available} of {want} available", target.describe()));
        self.last_object(target.clone());
        if deployment.spec.paused == Some(true) {
            self.add(1, Health::Pending, "it is paused: template changes wait until it is resumed");
        }
        let all = status.and_then(|status| status.conditions.as_ref());
        for condition in all.into_iter().flatten() {
            let (type_, is) = (condition.type_.as_deref().unwrap_or_default(), condition.status.as_deref());
            let bad = matches!(
                (type_, is),
                ("Progressing" | "Available", Some("False")) | ("ReplicaFailure", Some("True"))
            );
            if bad {
                let reason = condition.reason.as_deref().unwrap_or_default();
                let message = condition.message.as_deref().unwrap_or_default();
                self.add(1, Health::Failed, format!("{type_}: {reason}: {message}"));
            }
        }
        let Some(uid) = &target.uid else { return };
        let mut sets: Vec<&'c ReplicaSet> = self.cx.stores.replica_sets().owned_by(uid).collect();
        sets.order_by_key(|set| std::cmp::Reverse(set.metadata.creation_timestamp.as_ref().map(|at| at.0)));
        // ReplicaSets scaled to zero explain nothing.
        sets.retain(|set| {
            set.spec.replicas.unwrap_or(1) > 0
                || set.status.as_ref().is_some_and(|status| status.replicas > 0)
        });
        let all: Vec<&'c Pod> = sets.iter().flat_map(|set| self.pods_of_set(set)).collect();
        // A single pod is shown below its set. If there are several, each cause is listed once for the pods of all
        // sets.
        let is_alone = all.iter().filter(|pod| is_unwell(pod)).count() <= 1;
        for set in sets {
            self.state_of_set(1, set);
            if is_alone {
                self.pods(2, self.pods_of_set(set));
            }
        }
        if !is_alone {
            self.pods(1, all);
        }
    }

    fn pods_of_set(&self, set: &ReplicaSet) -> Vec<&'c Pod> {
        let uid = set.metadata.uid.as_deref().map(Uid::from);
        uid.into_iter().flat_map(|uid| self.cx.stores.pods().owned_by(&uid).collect::<Vec<_>>()).collect()
    }

    fn replica_set(&mut self, depth: usize, set: &ReplicaSet) {
        self.state_of_set(depth, set);
        self.pods(depth + 1, self.pods_of_set(set));
    }

    fn state_of_set(&mut self, depth: usize, set: &ReplicaSet) {
        let status = set.status.as_ref();
        let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
        let (there, want) = (status.map_or(0, |status| status.replicas), set.spec.replicas.unwrap_or(1));
        let health = if ready >= want { Health::Running } else { Health::Pending };
        let object = ObjectRef::of(self.cx.catalogue.kind::<ReplicaSet>(), set);
        self.add(depth, health, format!("{}: {ready} of {want} ready", object.describe()));
        self.last_object(object);
        for condition in status.and_then(|status| status.conditions.as_ref()).into_iter().flatten() {
            if condition.type_.as_deref() == Some("ReplicaFailure")
                && condition.status.as_deref() == Some("True")
            {
                let message = condition.message.as_deref().unwrap_or_default();
                self.add(depth + 1, Health::Failed, format!("cannot create pods: {message}"));
            }
        }
        if there < want {
            self.add(depth + 1, Health::Pending, format!("{} of its pods are not created yet", want - there));
        }
    }

    fn node(&mut self, target: &ObjectRef, of: &Node) {
        let (word, health) = node::status_with_fence(of, self.cx.stores);
        self.add(0, health, format!("{}: {word}", target.describe()));
        self.last_object(target.clone());
        let all = of.status.as_ref().and_then(|status| status.conditions.as_ref());
        for condition in all.into_iter().flatten() {
            let well = if condition.type_ == "Ready" { "True" } else { "False" };
            if condition.status != well {
                let reason = condition.reason.as_deref().unwrap_or_default();
                let message = condition.message.as_deref().unwrap_or_default();
                self.add(
                    1,
                    Health::Failed,
                    format!("{} is {}: {reason}: {message}", condition.type_, condition.status),
                );
            }
        }
        if node::is_cordoned(of) {
            self.add(1, Health::Terminating, "cordoned: it gets no new pods");
        }
    }

    /// Adds the pods that are not ready: a single pod with its causes; for several pods, each distinct cause once.
    fn pods(&mut self, depth: usize, pods: Vec<&'c Pod>) {
        let mut unwell: Vec<&'c Pod> = pods.into_iter().filter(|pod| is_unwell(pod)).collect();
        unwell.order_by_key(|pod| {
            let fails = pod_status::of(pod).health.is_fault();
            (!fails, pod.metadata.name.clone())
        });
        if unwell.is_empty() && depth == 1 && self.links.len() == 1 {
            self.add(1, Health::Running, "all its pods are healthy");
        }
        match unwell.as_slice() {
            [] => {}
            [pod] => self.pod(depth, pod),
            several => self.causes(depth, several),
        }
    }

    fn pod(&mut self, depth: usize, pod: &Pod) {
        let status = pod_status::of(pod);
        let object = ObjectRef::of(self.cx.catalogue.kind::<Pod>(), pod);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let place = node.map(|node| format!(" on {node}")).unwrap_or_default();
        self.add(
            depth,
            status.health,
            format!(
                "{}: {}, {} of {} ready{place}",
                object.describe(),
                status.status,
                status.ready,
                status.total
            ),
        );
        self.last_object(object.clone());
        let warning = self.newest_warning(&object);
        self.causes_of(depth + 1, pod, &object, warning);
    }

    /// Adds the causes that keep one pod from being ready, each at this depth with its details below.
    pub(super) fn causes_of(
        &mut self,
        depth: usize,
        pod: &Pod,
        object: &ObjectRef,
        warning: Option<Warning>,
    ) {
        let status = pod_status::of(pod);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if let Some(deleted) = &pod.metadata.deletion_timestamp {
            let finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
            if deleted.0 > self.cx.now {
                self.add(
                    depth,
                    Health::Terminating,
                    "it is terminating; containers that still run are killed at the end of the grace period",
                );
                if let Some(last) = self.links.last_mut() {
                    last.countdown = Some(Countdown::Event(deleted.0));
                }
            } else if finalizers.is_empty() {
                self.add(
                    depth,
                    Health::Failed,
                    "its grace period is over; its node has not confirmed its end",
                );
            } else {
                self.add(
                    depth,
                    Health::Pending,
                    format!("its removal waits for finalizers: {}", finalizers.join(", ")),
                );
            }
        }
        let all = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        if related::waits_for_a_node(pod) {
            let reason = conditions::get(all, "PodScheduled").and_then(|condition| condition.message.clone());
            let key = self.cx.bindings.key_in(Command::Explain, KeyContext::Explain);
            let more = key.map(|key| format!(" (<{key}> explains each node)")).unwrap_or_default();
            let reason = reason.unwrap_or_else(|| "the scheduler has not tried it yet".to_owned());
            return self.add(depth, Health::Pending, format!("no node accepts it: {reason}{more}"));
        }
        self.node_of(depth, node);
        for gate in pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten()) {
            if !conditions::is_true(all, &gate.condition_type) {
                let text = format!("readiness gate {} is not true", gate.condition_type);
                self.add(depth, Health::Pending, text);
            }
        }
        let mut has_message = false;
        for one in container_state::of_pod(pod, None) {
            if is_the_cause(&one) {
                has_message |= one.message.is_some();
                self.container(depth, object, &one, warning.as_ref());
            }
        }
        // Problems that containers do not report: mounts, networks, admission by the kubelet.
        if let Some((text, health)) = warning.filter(|_| !has_message && status.health != Health::Succeeded) {
            self.add(depth, health, text);
        }
    }

    /// Adds a node that is not ready: it is the cause for all its pods.
    fn node_of(&mut self, depth: usize, name: Option<&str>) {
        let Some(name) = name else { return };
        match self.cx.stores.nodes().by_name("", name) {
            Some(of) if !node::is_ready(of) => {
                let (word, health) = node::status_with_fence(of, self.cx.stores);
                self.add(depth, health, format!("its node {name} is {word}"));
                self.last_object(ObjectRef::of(self.cx.catalogue.kind::<Node>(), of));
            }
            None if self.cx.stores.nodes().synced() => {
                self.add(depth, Health::Failed, format!("its node {name} is gone"));
            }
            _ => {}
        }
    }

    fn container(&mut self, depth: usize, pod: &ObjectRef, one: &ContainerFacts, warning: Option<&Warning>) {
        let role = if one.role.is_empty() { String::new() } else { format!("{} ", one.role) };
        let message = one.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        self.add(depth, one.health, format!("{role}container {}: {}{message}", one.name, one.state));
        if let Some(last) = self.links.last_mut() {
            last.countdown = one.retry_at.map(Countdown::Retry);
        }
        if let Some((exit, at)) = &one.last_exit {
            let when = at.map(|at| format!(" {} ago", self.cx.age(at))).unwrap_or_default();
            self.add(depth + 1, Health::Crashing, format!("its last run ended{when}: {exit}"));
        }
        if one.is_running && one.ready == Some(false) {
            for (name, probe) in one.probes.iter().filter(|(name, _)| *name != "liveness") {
                self.add(depth + 1, Health::Pending, format!("{name} probe: {probe}"));
            }
            if let Some((text, health)) = warning.filter(|(text, _)| text.contains("probe")) {
                self.add(depth + 1, *health, text.clone());
            }
        }
        if let Some(log) = LogKey::of(pod, one) {
            self.add_more(depth + 1, String::new());
            if let Some(last) = self.links.last_mut() {
                last.log = Some(log);
            }
        }
    }

    /// Returns the newest warning event about an object.
    fn newest_warning(&self, object: &ObjectRef) -> Option<Warning> {
        let events = related::events_about(self.cx, object);
        let newest: &Event = events.into_iter().find(|event| event::is_warning(event))?;
        let reason = newest.reason.as_deref().unwrap_or_default();
        let message = newest.message.as_deref().unwrap_or_default();
        Some(self.warning(reason, message, event::count(newest), event::last_seen(newest)))
    }

    /// Returns a warning as text.
    pub(super) fn warning(
        &self,
        reason: &str,
        message: &str,
        count: i32,
        last_seen: Option<Timestamp>,
    ) -> Warning {
        let often = if count > 1 { format!(" (×{count})") } else { String::new() };
        let when = last_seen.map(|at| format!(", {} ago", self.cx.age(at))).unwrap_or_default();
        (format!("{reason}{often}{when}: {}", message.trim_end()), Health::Failed)
    }
}

/// Returns whether a pod is neither ready nor finished successfully.
fn is_unwell(pod: &Pod) -> bool {
    !matches!(pod_status::of(pod).health, Health::Running | Health::Succeeded)
}

/// Returns whether a container keeps its pod from being ready.
fn is_the_cause(one: &ContainerFacts) -> bool {
    match one.role {
        "debug" => false,
        "init" => one.health != Health::Succeeded,
        _ => one.ready != Some(true) && one.health != Health::Succeeded,
    }
}
