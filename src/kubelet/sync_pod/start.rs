//! Starting one attempt of a container: its image, its environment, its mounts, its process, its hook.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, FileKeySelector};

use super::{After, SyncPod};
use crate::environment::{self, EnvError, Sources};
use crate::images::signal_number;
use crate::observed::{AttemptMemory, CreateError, HookState, ImageState, RestartBackOff, Unrecorded};
use crate::probe::ProbeSet;
use crate::runtime::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, Image, Mount, RuntimeError,
};
use crate::volumes::{self, MountError};
use crate::{hooks, resize, security, spec};
use base::clock::saturating_after;
use reconcile::EventType;

/// After this long a container that could not be made is tried again.
const CREATE_AGAIN: Duration = Duration::from_secs(10);

impl SyncPod<'_> {
    pub(super) async fn start(
        &mut self,
        name: &str,
        attempt: u32,
        back_off: Option<RestartBackOff>,
    ) -> After {
        let Some((role, container)) = spec::container(&self.pod, name) else { return After::Next };
        let mut container = container.into_owned();
        // A change of resources that the node has not agreed to is none yet.
        container.resources = self.state.observed.resize.of(&container).cloned();
        let image = match self.ensure_image_exists(&container).await {
            Ok(image) => image,
            Err(after) => return after,
        };
        let mut resolved = match self.resolve(&container, attempt).await {
            Ok(resolved) => resolved,
            Err((reason, message)) => return self.create_failed(name, reason, message),
        };
        let target = match role {
            spec::Role::Ephemeral => spec::ephemeral_containers(&self.pod)
                .iter()
                .find(|e| e.name == name)
                .and_then(|e| e.target_container_name.clone()),
            _ => None,
        };
        if let Some(target) = &target {
            self.add_variables_of(target, &mut resolved.env).await;
        }
        let started = self.node.runtime.start_container(ContainerSpec { target, ..resolved }).await;
        let (now, wall) = (self.now(), self.workers.context.clock.now());
        if let (Ok(record), Some(sandbox)) = (&started, &mut self.state.observed.sandbox) {
            // As a relist would find it; whatever happens to it from here on comes as an event.
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
                memory.unrecorded = Some(Unrecorded {
                    record: never_started(&container, attempt, image, &message, wall),
                    reason: "StartError".into(),
                });
                self.container_event(name, EventType::Warning, "Failed", format!("Error: {message}"));
                return After::Again;
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
        if let Some(hook) = hook {
            let target = self.target(record.id.clone());
            let run = async move { hooks::run(&target, &container, &hook, hooks::UNLIMITED).await };
            self.in_background(name, &record.id, true, run);
            // The next container starts only after the hook.
            return After::Again;
        }
        After::Next
    }

    /// A port that this machine keeps from us is served elsewhere: whoever asks for it must learn of it.
    fn record_low_ports(&self, container: &Container) {
        for (port, served) in self.node.config.low_ports.moved(container.ports.iter().flatten()) {
            let message = format!(
                "Port {port} is root's alone on this machine: it is to be served at {served}, where probes ask \
                 for it (sysctl net.ipv4.ip_unprivileged_port_start={port} would change that)"
            );
            self.container_event(&container.name, EventType::Normal, "PortMoved", message);
        }
    }

    pub(super) fn create_failed(&mut self, name: &str, reason: &'static str, message: String) -> After {
        self.container_event(name, EventType::Warning, "Failed", format!("Error: {message}"));
        let until = saturating_after(self.now(), CREATE_AGAIN);
        self.state.observed.memory_mut(name).error = Some(CreateError { reason, message, until });
        After::Next
    }

    /// Gives a debugger the variables of the container that it looks at, below its own: a runtime that was started
    /// anew does not know them any more. What cannot be had by now is left out.
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

    /// Everything the runtime needs to know of the attempt; otherwise the waiting reason and message.
    async fn resolve(
        &self,
        container: &Container,
        attempt: u32,
    ) -> Result<ContainerSpec, (&'static str, String)> {
        let reason_and_message = |error: EnvError| (error.reason(), error.to_string());
        let env = self.variables(container).await.map_err(reason_and_message)?;
        let (command, args) = environment::resolve_words(container, &env).map_err(reason_and_message)?;
        let mounts = self.mounts(container, &env).await.map_err(|error| match error {
            MountError::Config(message) => ("CreateContainerConfigError", message),
            MountError::Create(message) => ("CreateContainerError", message),
        })?;
        let limits = resize::limits_of(&self.pod, container.resources.as_ref());
        let (run_as_user, run_as_group) = security::user(&self.pod, container);
        Ok(ContainerSpec {
            pod_uid: self.pod.uid().to_string(),
            name: container.name.clone(),
            attempt,
            image: container.image.clone().unwrap_or_default(),
            command,
            args,
            working_dir: container.working_dir.clone().filter(|d| !d.is_empty()).map(PathBuf::from),
            mounts,
            memory_volumes: volumes::memory_of_container(&self.pod, container),
            stdin: container.stdin == Some(true),
            stdin_once: container.stdin_once == Some(true),
            tty: container.tty == Some(true),
            memory_limit_bytes: limits.memory_bytes,
            cpu_limit_millicores: limits.cpu_millicores,
            cpu_request_millicores: limits.cpu_request_millicores,
            run_as_user,
            run_as_group,
            security: security::security(&self.pod, container),
            stop_signal: container
                .lifecycle
                .as_ref()
                .and_then(|lifecycle| signal_number(lifecycle.stop_signal.as_deref()?)),
            termination_message_path: container
                .termination_message_path
                .clone()
                .unwrap_or_else(|| "/dev/termination-log".into())
                .into(),
            target: None,
            env,
        })
    }

    /// The container's mounts. They may lie on a disk that does not answer, for which no other pod is to wait.
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
        let mounts = tokio::task::spawn_blocking(move || volumes::mounts(&node, &pod, &container, &env));
        mounts.await.unwrap_or_else(|error| Err(MountError::Create(error.to_string())))
    }
}

/// The record of an attempt whose program could not be started: exit code 128, as container runtimes tell it.
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
            base::chance::random::<u128>(),
            base::chance::random::<u128>()
        )),
        name: container.name.clone(),
        attempt,
        image: container.image.clone().unwrap_or_default(),
        image_id: image.image_id,
        pid: None,
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
