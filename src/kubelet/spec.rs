//! The kubelet's view of a pod: its containers by role, with their statuses, restart rules and grace period.
//!
//! Pure reading; never changes anything.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, EphemeralContainer, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use object::pod::{RESTART_ALL, as_container, restart_rule};
use object::quantity::Amount;
use object::resources::{is_pod_level_resource, pod_level_resources};

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An init container that must exit 0 before the next starts.
    Init,
    /// An init container with restartPolicy Always.
    Sidecar,
    /// A container of `spec.containers`.
    App,
    /// A debug container, never restarted.
    Ephemeral,
}

/// The condition under which an ended container restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    /// With any exit code.
    Always,
    /// If its exit code is not 0.
    OnFailure,
    /// Not at all.
    Never,
}

impl RestartPolicy {
    fn read(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

/// The pod's spec; validation guarantees that it exists.
pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&NO_SPEC)
}

/// A limit of the pod as a whole (`spec.resources`), which applies to containers without their own.
pub(crate) fn pod_level_limit<'a>(pod: &'a Pod, resource: &str) -> Option<&'a Quantity> {
    let limits = pod_level_resources(spec(pod))?.limits.as_ref()?;
    limits.get(resource).filter(|limit| is_pod_level_resource(resource) && !Amount::of(limit).is_zero())
}

/// The pod's restart policy.
pub(crate) fn restart_policy(pod: &Pod) -> RestartPolicy {
    RestartPolicy::read(spec(pod).restart_policy.as_deref())
}

pub(crate) fn init_role(container: &Container) -> Role {
    if container.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init }
}

/// The pod's init containers and sidecars, in order.
pub(crate) fn init_containers(pod: &Pod) -> impl DoubleEndedIterator<Item = (Role, &Container)> {
    spec(pod).init_containers.iter().flatten().map(|c| (init_role(c), c))
}

/// The pod's app containers, in order.
pub(crate) fn app_containers(pod: &Pod) -> &[Container] {
    &spec(pod).containers
}

/// The pod's ephemeral containers, in order.
pub(crate) fn ephemeral_containers(pod: &Pod) -> &[EphemeralContainer] {
    spec(pod).ephemeral_containers.as_deref().unwrap_or_default()
}

pub(crate) fn all_containers(pod: &Pod) -> impl Iterator<Item = (Role, Cow<'_, Container>)> {
    init_containers(pod)
        .map(|(role, c)| (role, Cow::Borrowed(c)))
        .chain(app_containers(pod).iter().map(|c| (Role::App, Cow::Borrowed(c))))
        .chain(ephemeral_containers(pod).iter().map(|c| (Role::Ephemeral, Cow::Owned(as_container(c)))))
}

/// The container of this name, in any role.
pub(crate) fn container<'a>(pod: &'a Pod, name: &str) -> Option<(Role, Cow<'a, Container>)> {
    all_containers(pod).find(|(_, c)| c.name == name)
}

/// The status of the container of this name, in any role.
pub(crate) fn container_status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses]
        .into_iter()
        .flatten()
        .flatten()
        .find(|status| status.name == name)
}

/// Returns true if a container in this role restarts after `exit_code`: its own rules come first, then its own policy,
/// then the pod's (INIT-1: for init containers Always acts as OnFailure).
pub(crate) fn restarts_after(pod: &Pod, role: Role, container: &Container, exit_code: i32) -> bool {
    let own = || match restart_rule(container, exit_code) {
        Some(rule) => matches!(rule.action.as_str(), "Restart" | RESTART_ALL),
        None => container.restart_policy.as_deref().map_or_else(
            || restart_policy(pod).restarts(exit_code),
            |text| RestartPolicy::read(Some(text)).restarts(exit_code),
        ),
    };
    match role {
        Role::Ephemeral => false,
        Role::Sidecar => true,
        Role::Init => exit_code != 0 && own(),
        Role::App => own(),
    }
}

/// `spec.terminationGracePeriodSeconds`, 30 s if unset.
pub(crate) fn grace(pod: &Pod) -> Duration {
    seconds(spec(pod).termination_grace_period_seconds, 30)
}

/// A field of seconds; negative counts as none.
pub(crate) fn seconds(field: Option<i64>, default: u64) -> Duration {
    Duration::from_secs(field.map_or(default, |s| u64::try_from(s).unwrap_or(0)))
}

/// `name_namespace(uid)`: how Kubernetes names a pod in messages.
pub(crate) fn pod_label(pod: &Pod) -> String {
    let meta = &pod.metadata;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid))
}

/// The number of a port given by number or by the name of a port of the container.
pub(crate) fn port_number(container: &Container, port: &IntOrString) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => container
            .ports
            .iter()
            .flatten()
            .find(|p| p.name.as_deref() == Some(name))
            .and_then(|p| u16::try_from(p.container_port).ok())
            .or_else(|| name.parse().ok()),
    }
    .filter(|number| *number != 0)
}
