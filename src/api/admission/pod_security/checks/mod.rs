//! The checks of the levels: each with its first version, and the version in which a stricter one replaces
//! it.

mod baseline;
mod restricted;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ContainerPort, Lifecycle, PodSecurityContext, PodSpec, Probe, SecurityContext,
};

use super::policy::{Level, LevelVersion, Version};
use kinds::PodShape;

/// The last version in which a check changed: later versions in labels mean this one.
const NEWEST: u64 = 37;

/// A violation: a short reason, and the details.
struct Violation {
    reason: &'static str,
    detail: String,
}

impl Violation {
    #[expect(clippy::unnecessary_wraps, reason = "every check ends with one")]
    fn report(reason: &'static str, detail: String) -> Option<Self> {
        Some(Self { reason, detail })
    }
}

/// All violations of a pod, at least one.
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    /// Returns the reasons, joined.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }

    /// Returns the reasons and their details.
    pub(super) fn details(&self) -> String {
        let each = self.0.iter().map(|Violation { reason, detail }| format!("{reason} ({detail})"));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// The checked properties of a pod.
struct CheckInput<'a> {
    shape: &'a PodShape<'a>,
    containers: Vec<Container<'a>>,
    /// The Kubernetes version whose rules apply, by its minor number.
    minor: u64,
}

/// The properties that all types of containers share.
struct Container<'a> {
    name: &'a str,
    security: Option<&'a SecurityContext>,
    ports: &'a [ContainerPort],
    probes: [Option<&'a Probe>; 3],
    lifecycle: Option<&'a Lifecycle>,
}

macro_rules! container {
    ($c:expr) => {
        Container {
            name: &$c.name,
            security: $c.security_context.as_ref(),
            ports: $c.ports.as_deref().unwrap_or_default(),
            probes: [$c.liveness_probe.as_ref(), $c.readiness_probe.as_ref(), $c.startup_probe.as_ref()],
            lifecycle: $c.lifecycle.as_ref(),
        }
    };
}

impl<'a> CheckInput<'a> {
    fn of(shape: &'a PodShape<'a>, minor: u64) -> Self {
        let spec = shape.spec;
        let init = spec.init_containers.iter().flatten().map(|c| container!(c));
        let ephemeral = spec.ephemeral_containers.iter().flatten().map(|c| container!(c));
        let containers = init.chain(spec.containers.iter().map(|c| container!(c))).chain(ephemeral).collect();
        Self { shape, containers, minor }
    }

    fn spec(&self) -> &'a PodSpec {
        self.shape.spec
    }

    fn security(&self) -> Option<&'a PodSecurityContext> {
        self.spec().security_context.as_ref()
    }

    fn annotations(&self) -> impl Iterator<Item = (&'a String, &'a String)> {
        self.shape.metadata.and_then(|meta| meta.annotations.as_ref()).into_iter().flatten()
    }

    fn is_windows(&self) -> bool {
        self.spec().os.as_ref().is_some_and(|os| os.name == "windows")
    }

    /// Returns true if root in the pod is not root of the node.
    fn has_users_of_its_own(&self) -> bool {
        self.spec().host_users == Some(false)
    }

    /// Returns the names of the containers for which `holds` is true.
    fn containers_that(&self, holds: impl Fn(&Container<'a>) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|container| holds(container)).map(|container| container.name).collect()
    }
}

type CheckFn = fn(&CheckInput<'_>) -> Option<Violation>;

struct Check {
    /// The lowest level with this check.
    level: Level,
    /// The minor version that introduced the check.
    since: u64,
    /// The minor version from which a stricter check replaces this one at the restricted level.
    replaced_since: Option<u64>,
    run: CheckFn,
}

const fn baseline(since: u64, replaced_since: Option<u64>, run: CheckFn) -> Check {
    Check { level: Level::Baseline, since, replaced_since, run }
}

const fn restricted(since: u64, run: CheckFn) -> Check {
    Check { level: Level::Restricted, since, replaced_since: None, run }
}

/// In the order of reports.
static CHECKS: [Check; 19] = [
    baseline(0, None, baseline::app_armor_profile),
    baseline(0, Some(22), baseline::capabilities),
    baseline(0, None, baseline::host_namespaces),
    baseline(0, Some(0), baseline::host_path_volumes),
    baseline(0, None, baseline::host_ports),
    baseline(34, None, baseline::host_of_probes_and_hooks),
    baseline(0, None, baseline::privileged),
    baseline(0, Some(35), baseline::proc_mount),
    baseline(0, None, baseline::selinux_options),
    baseline(0, Some(19), baseline::seccomp_profile),
    baseline(0, None, baseline::sysctls),
    baseline(0, None, baseline::windows_host_process),
    restricted(8, restricted::privilege_escalation),
    restricted(22, restricted::capabilities),
    restricted(35, restricted::proc_mount),
    restricted(0, restricted::volumes),
    restricted(0, restricted::non_root),
    restricted(23, restricted::user),
    restricted(19, restricted::seccomp_profile),
];

/// Returns the violations of a level by a pod, if any.
pub(super) fn violations(policy: LevelVersion, shape: &PodShape<'_>) -> Option<Violations> {
    if policy.level == Level::Privileged {
        return None;
    }
    let minor = match policy.version {
        Version::Minor(minor) => minor.min(NEWEST),
        Version::Latest => NEWEST,
    };
    let input = CheckInput::of(shape, minor);
    let applies = |check: &&Check| {
        let is_replaced =
            policy.level == Level::Restricted && check.replaced_since.is_some_and(|since| since <= minor);
        check.level <= policy.level && check.since <= minor && !is_replaced
    };
    let found: Vec<Violation> =
        CHECKS.iter().filter(applies).filter_map(|check| (check.run)(&input)).collect();
    (!found.is_empty()).then_some(Violations(found))
}

/// Returns the texts in double quotes, separated by commas.
fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!("\"{}\"", items.join("\", \""))
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// Returns `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Returns the pod, the containers, or both that set a field; `None` if none does.
fn setters(pod: bool, names: &[&str]) -> Option<String> {
    let of_containers = (!names.is_empty()).then(|| containers(names));
    let all: Vec<String> = pod.then(|| "pod".into()).into_iter().chain(of_containers).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// A field of the same type in the security contexts of a pod and of its containers.
struct SecurityContextTypes<'a> {
    of_pod: Option<&'a str>,
    of_containers: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> SecurityContextTypes<'a> {
    fn seccomp(input: &CheckInput<'a>) -> Self {
        Self {
            of_pod: input.security().and_then(|s| Some(s.seccomp_profile.as_ref()?.type_.as_str())),
            of_containers: input
                .containers
                .iter()
                .map(|c| (c.name, c.security.and_then(|s| Some(s.seccomp_profile.as_ref()?.type_.as_str()))))
                .collect(),
        }
    }

    /// Returns the setters of forbidden values, and these values.
    fn forbidden_values(&self, allowed: fn(&str) -> bool) -> (bool, Vec<&'a str>, BTreeSet<&'a str>) {
        let is_bad = |of: Option<&'a str>| of.is_some_and(|of| !allowed(of));
        let containers: Vec<_> = self.of_containers.iter().filter(|(_, of)| is_bad(*of)).collect();
        let values = containers.iter().filter_map(|(_, of)| *of).chain(self.of_pod.filter(|of| !allowed(of)));
        let values = values.collect();
        (is_bad(self.of_pod), containers.iter().map(|(name, _)| *name).collect(), values)
    }
}

/// Returns true for seccomp profiles that are safe.
fn is_safe_seccomp(profile: &str) -> bool {
    matches!(profile, "RuntimeDefault" | "Localhost")
}
