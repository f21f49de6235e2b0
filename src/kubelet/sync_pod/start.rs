//! Starts one attempt of a container: its image, its environment, its mounts, its process, its hook.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, FileKeySelector, Pod};

use super::{ActionResult, SyncPod};
use crate::environment::{self, EnvError, Sources};
use crate::observed::{AttemptMemory, CreateError, FailedAttempt, HookState, ImageState, RestartBackOff};
use crate::oom_score::oom_score_adj;
use crate::probe::ProbeSet;
use crate::resize::Resize;
use crate::runtime::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, Image, Mount, RuntimeError, Seccomp,
};
use crate::volumes::{self, MountError};
use crate::{hooks, resize, seccomp, security, spec};
use base::clock::saturating_after;
use base::subordinate_ids::real_user;
use images::signal_number;
use object::quantity::Amount;
use reconcile::EventType;

/// The interval at which the creation of a container is retried.
const CREATE_RETRY: Duration = Duration::from_secs(10);

impl SyncPod<'_> {
    pub(super) async fn start(
        &mut self,
        name: &str,
        attempt: u32,
        back_off: Option<RestartBackOff>,
    ) -> ActionResult {
        let Some((role, container)) = spec::container(&self.pod, name) else { return ActionResult::Next };
        let mut container = container.into_owned();
        // A change of resources that the node has not allocated does not count yet.
        container.resources = self.state.observed.resize.of(&container).cloned();
        let image = match self.ensure_images_exist(&container).await {
            Ok(image) => image,
            Err(after) => return after,
        };
        let resolved = match self.resolve(&container).await {
            Ok(resolved) => resolved,
            Err((reason, message)) => return self.create_failed(name, reason, message),
        };
        let memory = Amount::in_list(Some(&self.node.config.capacity), "memory");
        let oom_score_adj = oom_score_adj(&self.pod, role, &container, memory.units());
        let mut spec = container_spec(&self.pod, &container, &self.state.observed.resize, resolved);
        (spec.attempt, spec.oom_score_adj) = (attempt, Some(oom_score_adj));
        spec.security.seccomp = match self.seccomp(&container).await {
            Ok(filter) => filter,
            Err(message) => return self.create_failed(name, "CreateContainerError", message),
        };
        if let Some(target) = &spec.target {
            self.add_variables_of(target, &mut spec.env).await;
        }
        let requested_user = spec.run_as_user;
        let started = self.node.runtime.start_container(spec).await;
        let (now, wall) = (self.now(), self.workers.context.clock.now());
        if let (Ok(record), Some(sandbox)) = (&started, &mut self.state.observed.sandbox) {
            // The container is recorded as a relist would find it; every later change of it comes as an event.
            sandbox.containers.retain(|known| known.id != record.id);
            sandbox.containers.push(record.clone());
        } else {
            self.state.stale = true;
        }
        let memory = self.state.observed.memory_mut(name);
        memory.image = ImageState::Present(image.clone());
        memory.error = None;
        let record = match started {
            Ok(record) => record,
            Err(RuntimeError::StartFailed(message)) => {
                memory.back_off = back_off.or(memory.back_off);
                memory.unrecorded = Some(FailedAttempt {
                    record: never_started(&container, attempt, image, &message, wall),
                    reason: "StartError".into(),
                });
                self.container_event(name, EventType::Warning, "Failed", format!("Error: {message}"));
                return ActionResult::Replan;
            }
            Err(RuntimeError::CreateFailed(message)) => {
                return self.create_failed(name, "CreateContainerError", message);
            }
            Err(RuntimeError::InvalidConfig(what)) => {
                let (key, uid) = (self.pod.key(), self.pod.uid());
                let pod = format!("{}_{}({uid})", key.name, key.namespace);
                let message = format!("{what} (pod: \"{pod}\", container: {name})");
                return self.create_failed(name, "CreateContainerConfigError", message);
            }
            Err(error) => return self.create_failed(name, "RunContainerError", error.to_string()),
        };
        memory.back_off = back_off.or(memory.back_off);
        let hook = container.lifecycle.as_ref().and_then(|l| l.post_start.clone());
        memory.current = Some(AttemptMemory {
            id: record.id.clone(),
            post_start: if hook.is_some() { HookState::Running } else { HookState::Done },
            probes: ProbeSet::new(&container, now),
            stop: None,
            resources: container.resources.clone(),
        });
        self.record_end_of_resize();
        self.container_event(name, EventType::Normal, "Created", format!("Created container: {name}"));
        self.container_event(name, EventType::Normal, "Started", format!("Started container {name}"));
        self.record_low_ports(&container);
        self.record_ignored_user(name, requested_user, &record);
        if let Some(hook) = hook {
            let target = self.target(record.id.clone());
            let run = async move { hooks::run(&target, &container, &hook, hooks::UNLIMITED).await };
            self.in_background(name, &record.id, true, run);
            // The next container starts only after the hook.
            return ActionResult::Replan;
        }
        ActionResult::Next
    }

    /// A user with subordinate ids is root of containers, but images that show the machine's files run as that user. A
    /// node without such ids has reported the pod's users before (`security::ignored`).
    fn record_ignored_user(&self, name: &str, requested: Option<u32>, record: &ContainerRecord) {
        let Some(user) = record.user.as_ref().filter(|_| real_user().is_some()) else { return };
        if requested.is_some_and(|uid| uid != user.uid) {
            let message = "securityContext.runAsUser is ignored: images that show the machine's files run as the user \
                           who runs podium";
            self.container_event(name, EventType::Warning, "SecurityContextIgnored", message.to_owned());
        }
    }

    /// A port that this machine does not let us bind is served at another; clients must learn of it.
    fn record_low_ports(&self, container: &Container) {
        for (port, served) in self.node.config.low_ports.moved(container.ports.iter().flatten()) {
            let message = format!(
                "Only root can use port {port} on this machine: serve it at {served}, which probes use too \
                 (set sysctl net.ipv4.ip_unprivileged_port_start={port} to change that)"
            );
            self.container_event(&container.name, EventType::Normal, "PortMoved", message);
        }
    }

    pub(super) fn create_failed(
        &mut self,
        name: &str,
        reason: &'static str,
        message: String,
    ) -> ActionResult {
        self.container_event(name, EventType::Warning, "Failed", format!("Error: {message}"));
        let until = saturating_after(self.now(), CREATE_RETRY);
        self.state.observed.memory_mut(name).error = Some(CreateError { reason, message, until });
        ActionResult::Next
    }

    /// Gives a debug container the variables of its target container; the debug container's own take precedence. The
    /// variables are resolved again, because a restarted runtime does not know them. If they cannot be resolved, none
    /// are added.
    async fn add_variables_of(&self, target: &str, env: &mut Vec<(String, String)>) {
        if let Some((_, container)) = spec::container(&self.pod, target)
            && let Ok(variables) = self.variables(&container).await
        {
            env.splice(..0, variables);
        }
    }

    /// A container's environment.
    async fn variables(&self, container: &Container) -> Result<Vec<(String, String)>, EnvError> {
        let files = volumes::EnvFiles::read(self.node, &self.pod, container).await;
        let env_file: &dyn Fn(&FileKeySelector) -> Result<String, EnvError> =
            &|reference| files.value(reference);
        let pod = resize::allocated_pod(&self.pod, &self.state.observed.resize);
        let sources = Sources {
            pod: &pod,
            container,
            pod_ips: self.state.observed.ips,
            host_ips: self.node.config.ips(),
            low_ports: self.node.config.low_ports,
            allocatable: &self.node.config.capacity,
            config_map: &|name| {
                self.workers.context.config_maps.get(&object::Key::new(self.pod.namespace(), name))
            },
            secret: &|name| self.workers.context.secrets.get(&object::Key::new(self.pod.namespace(), name)),
            env_file: Some(env_file).filter(|_| !self.node.config.hollow),
            services: &|| environment::visible_services(&self.workers.context.services, self.pod.namespace()),
        };
        environment::resolve(&sources)
    }

    /// Resolves the container's references; otherwise returns the waiting reason and message.
    async fn resolve(&self, container: &Container) -> Result<ResolvedContainer, (&'static str, String)> {
        let reason_and_message = |error: EnvError| (error.reason(), error.to_string());
        let env = self.variables(container).await.map_err(reason_and_message)?;
        let (command, args) = environment::resolve_command(container, &env).map_err(reason_and_message)?;
        let mounts = self.mounts(container, &env).await.map_err(|error| match error {
            MountError::Config(message) => ("CreateContainerConfigError", message),
            MountError::Create(message) => ("CreateContainerError", message),
        })?;
        Ok(ResolvedContainer { env, command, args, mounts })
    }

    /// The filter of the container's system calls. Its file may lie on a disk that does not respond.
    async fn seccomp(&self, container: &Container) -> Result<Seccomp, String> {
        if self.node.config.hollow {
            return Ok(Seccomp::Unconfined);
        }
        let (node, pod, container) = (self.node.clone(), self.pod.clone(), container.clone());
        let read = base::task::blocking(move || seccomp::filter(&pod, &container, &node.config.seccomp_dir));
        read.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The container's mounts. They may lie on a disk that does not respond, and no other pod may wait for that disk.
    async fn mounts(
        &self,
        container: &Container,
        env: &[(String, String)],
    ) -> Result<Vec<Mount>, MountError> {
        if self.node.config.hollow {
            return volumes::mounts(self.node, &self.pod, container, env);
        }
        let (node, pod, container) = (self.node.clone(), self.pod.clone(), container.clone());
        let env = env.to_vec();
        let mounts = base::task::blocking(move || volumes::mounts(&node, &pod, &container, &env));
        mounts.await.unwrap_or_else(|error| Err(MountError::Create(error.to_string())))
    }
}

/// The resolved references of a container's spec: values of other objects, and paths of this machine.
#[derive(Default)]
struct ResolvedContainer {
    env: Vec<(String, String)>,
    command: Vec<String>,
    args: Vec<String>,
    mounts: Vec<Mount>,
}

/// The runtime's spec of a container of the pod.
fn container_spec(
    pod: &Pod,
    container: &Container,
    resize: &Resize,
    resolved: ResolvedContainer,
) -> ContainerSpec {
    let limits = resize::limits_of(pod, container, resize);
    let (run_as_user, run_as_group) = security::user(pod, container);
    let ephemeral = spec::ephemeral_containers(pod).iter().find(|e| e.name == container.name);
    ContainerSpec {
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
        name: container.name.clone(),
        attempt: 0,
        image: container.image.clone().unwrap_or_default(),
        command: resolved.command,
        args: resolved.args,
        working_dir: container.working_dir.clone().filter(|d| !d.is_empty()).map(PathBuf::from),
        mounts: resolved.mounts,
        memory_volumes: volumes::memory_of_container(pod, container),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        memory_limit_bytes: limits.memory_bytes,
        cpu_limit_millicores: limits.cpu_millicores,
        cpu_request_millicores: limits.cpu_request_millicores,
        pod_cpu_request_millicores: limits.pod_cpu_request_millicores,
        oom_score_adj: None,
        run_as_user,
        run_as_group,
        security: security::security(pod, container),
        stop_signal: container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| signal_number(lifecycle.stop_signal.as_deref()?)),
        termination_message_path: container
            .termination_message_path
            .clone()
            .unwrap_or_else(|| "/dev/termination-log".into())
            .into(),
        target: ephemeral.and_then(|e| e.target_container_name.clone()),
        env: resolved.env,
    }
}

/// The record of an attempt with a program that could not be started: exit code 128, as with container runtimes.
fn never_started(
    container: &Container,
    attempt: u32,
    image: Image,
    message: &str,
    now: Timestamp,
) -> ContainerRecord {
    ContainerRecord {
        id: ContainerId(format!(
            "{:032x}{:032x}",
            base::random::random::<u128>(),
            base::random::random::<u128>()
        )),
        name: container.name.clone(),
        attempt,
        image: container.image.clone().unwrap_or_default(),
        image_id: image.image_id,
        pid: None,
        user: None,
        started_at: now,
        exit: Some(ContainerExit {
            exit_code: 128,
            signal: None,
            oom_killed: false,
            finished_at: now,
            message: Some(message.to_string()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec_of(pod: &Value, name: &str) -> ContainerSpec {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let (_, container) = spec::container(&pod, name).unwrap();
        let words = |word: &str| vec![word.to_owned()];
        let resolved = ResolvedContainer {
            command: words("resolved"),
            args: words("args"),
            ..ResolvedContainer::default()
        };
        container_spec(&pod, &container, &Resize::default(), resolved)
    }

    #[test]
    fn a_container_is_started_as_its_spec_says_pod_13() {
        let pod = json!({"metadata": {"uid": "u"}, "spec": {
            "containers": [{"name": "plain"},
                {"name": "own", "image": "i", "command": ["$(A)"], "args": ["$(B)"], "workingDir": "/w",
                    "stdin": true, "stdinOnce": true, "tty": true, "terminationMessagePath": "/t",
                    "lifecycle": {"stopSignal": "SIGUSR1"}, "securityContext": {"runAsUser": 7, "runAsGroup": 8},
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Ki"}}}],
            "ephemeralContainers": [{"name": "debugger", "targetContainerName": "own"}]}});
        let plain = ContainerSpec {
            pod_uid: "u".into(),
            name: "plain".into(),
            command: vec!["resolved".into()],
            args: vec!["args".into()],
            pod_cpu_request_millicores: Some(1000),
            termination_message_path: "/dev/termination-log".into(),
            ..ContainerSpec::default()
        };
        assert_eq!(spec_of(&pod, "plain"), plain);
        let own = ContainerSpec {
            name: "own".into(),
            image: "i".into(),
            working_dir: Some("/w".into()),
            stdin: true,
            stdin_once: true,
            tty: true,
            memory_limit_bytes: Some(1024),
            cpu_limit_millicores: Some(2000),
            cpu_request_millicores: Some(1000),
            run_as_user: Some(7),
            run_as_group: Some(8),
            stop_signal: Some(libc::SIGUSR1),
            termination_message_path: "/t".into(),
            ..plain.clone()
        };
        assert_eq!(spec_of(&pod, "own"), own);
        let debugger = ContainerSpec { name: "debugger".into(), target: Some("own".into()), ..plain };
        assert_eq!(spec_of(&pod, "debugger"), debugger);
    }
}
