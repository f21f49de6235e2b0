//! A container's environment (POD-13): service variables, `envFrom`, `env` with `valueFrom` and `$(VAR)`.
//!
//! Pure: reads only [`Sources`]. Missing required sources are errors with Kubernetes' texts. Never holds more than a
//! program can be started with: each string is measured before it is copied or built.

mod budget;
mod env_file;
mod expand;
mod fields;
mod services;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, EnvVarSource, FileKeySelector, Pod, Secret, Service,
};

use super::spec;
use crate::ips::Ips;
use budget::Budget;
pub(crate) use budget::{STRING_BYTES, TOTAL_BYTES};
pub(crate) use env_file::EnvFile;
pub(crate) use expand::{Values, expand, unset};
pub(crate) use fields::{field_value, resource_value};
use object::SharedObject;
use object::low_ports::LowPorts;
use object::quantity::ResourceList;
pub(crate) use services::visible_services;

/// The sources of variables' values.
pub(crate) struct Sources<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    /// The pod's addresses.
    pub(crate) pod_ips: Ips,
    /// The node's addresses.
    pub(crate) host_ips: Ips,
    /// The ports that the node's programs may not bind.
    pub(crate) low_ports: LowPorts,
    /// The amounts that a container without a limit may use.
    pub(crate) allocatable: &'a ResourceList,
    /// Returns the config map of this name in the pod's namespace.
    pub(crate) config_map: &'a dyn Fn(&str) -> Option<SharedObject<ConfigMap>>,
    /// Returns the secret of this name in the pod's namespace.
    pub(crate) secret: &'a dyn Fn(&str) -> Option<SharedObject<Secret>>,
    /// Looks up a key of an environment file in a volume, empty if the file does not have it; `None` on nodes without
    /// processes.
    pub(crate) env_file: Option<&'a EnvFileLookup<'a>>,
    /// The services that pods of the namespace see: its own and `default/kubernetes`.
    pub(crate) services: &'a dyn Fn() -> Vec<SharedObject<Service>>,
}

/// Looks up a key of an environment file in a volume.
pub(crate) type EnvFileLookup<'a> = dyn Fn(&FileKeySelector) -> Result<String, EnvError> + 'a;

/// The reason why a container cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvError {
    /// A required config map or secret does not exist.
    #[error("{kind} \"{name}\" not found")]
    NoSource {
        /// `configmap` or `secret`.
        kind: &'static str,
        name: String,
    },
    /// The object does not have this key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        namespace: String,
        name: String,
        key: String,
    },
    /// Containers cannot refer to this field.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    /// Containers cannot refer to this resource.
    #[error("unsupported container resource: {0}")]
    Resource(String),
    /// The pod has no volume with the name in a `fileKeyRef`.
    #[error("cannot find the volume \"{0}\" referenced by FileKeyRef")]
    NoVolume(String),
    /// An environment file cannot be read, or has a syntax error.
    #[error("couldn't parse env file \"{path}\": {reason}")]
    EnvFile {
        /// The file's volume and its path in that volume.
        path: String,
        /// The mistake.
        reason: String,
    },
    /// An environment file does not have the key, or its value is not text.
    #[error("environment variable key \"{key}\" not found in file \"{path}\"")]
    NoFileKey {
        key: String,
        /// The file's volume and its path in that volume.
        path: String,
    },
    /// One string exceeds the limit for a program's start.
    #[error("{subject} is {bytes} bytes long; a program's string has at most {max}", max = STRING_BYTES - 1)]
    TooLong {
        /// `variable NAME`, `argument 3`.
        subject: String,
        /// The size that the string would have.
        bytes: usize,
    },
    /// All strings together exceed the limit for a program's start.
    #[error(
        "the environment and arguments are longer than {TOTAL_BYTES} bytes, the maximum for a program \
         (reached at {at}; enableServiceLinks: false leaves out the variables of services)"
    )]
    TooMuch {
        /// The position at which the limit was reached: `variable NAME`, `argument 3`.
        at: String,
    },
}

impl EnvError {
    /// The waiting reason of the container.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::TooLong { .. } | Self::TooMuch { .. } => "CreateContainerError",
            _ => "CreateContainerConfigError",
        }
    }
}

/// The environment in order; later entries replace earlier ones of the same name.
pub(crate) fn resolve(sources: &Sources<'_>) -> Result<Vec<(String, String)>, EnvError> {
    let mut env = Environment::new();
    let links = spec::spec(sources.pod).enable_service_links != Some(false);
    let mut set = |name: String, value: String| env.set(name, value);
    services::variables(&(sources.services)(), sources.pod, links, sources.low_ports, &mut set)?;
    // Podium's addition: a process cannot have an address of its own, so this variable contains its pod's address
    // (NET-1).
    if let Some(ip) = sources.pod_ips.first {
        env.set("POD_IP".into(), ip.to_string())?;
    }
    // Another addition: the ports at which the container must listen instead of the declared ones.
    if sources.low_ports.are_moved() {
        env.set(LowPorts::VARIABLE.into(), sources.low_ports.text())?;
    }
    from_sources(sources, &mut env)?;
    for var in sources.container.env.iter().flatten() {
        if let Some(value) = value_of(sources, var, &env)? {
            env.set(var.name.clone(), value)?;
        }
    }
    Ok(env.entries)
}

/// `command` and `args` with their references to the environment replaced.
pub(crate) fn resolve_command(
    container: &Container,
    env: &[(String, String)],
) -> Result<(Vec<String>, Vec<String>), EnvError> {
    let (values, mut budget) = (Values::of(env), Budget::new());
    for (name, value) in env {
        budget.take(|| variable(name), name.len() + 1 + value.len())?;
    }
    let mut expand_all = |kind: &str, words: &Option<Vec<String>>| -> Result<Vec<String>, EnvError> {
        let mut all = Vec::new();
        for (index, word) in words.iter().flatten().enumerate() {
            let label = || format!("{kind}[{index}]");
            let word = expand(word, |name| values.get(name), Budget::longest())
                .map_err(|bytes| EnvError::TooLong { subject: label(), bytes })?;
            budget.take(label, word.len())?;
            all.push(word);
        }
        Ok(all)
    };
    Ok((expand_all("command", &container.command)?, expand_all("args", &container.args)?))
}

fn variable(name: &str) -> String {
    // A name may be as long as a manifest.
    format!("variable {}", &name[..name.floor_char_boundary(100)])
}

struct Environment {
    entries: Vec<(String, String)>,
    index: HashMap<String, usize>,
    budget: Budget,
}

impl Environment {
    fn new() -> Self {
        Self { entries: Vec::new(), index: HashMap::new(), budget: Budget::new() }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.index.get(name).map(|index| self.entries[*index].1.as_str())
    }

    fn set(&mut self, name: String, value: String) -> Result<(), EnvError> {
        self.reserve(&name, value.len())?;
        if let Some(index) = self.index.get(&name) {
            self.entries[*index].1 = value;
        } else {
            self.index.insert(name.clone(), self.entries.len());
            self.entries.push((name, value));
        }
        Ok(())
    }

    /// Counts a variable before it is set.
    fn reserve(&mut self, name: &str, value_bytes: usize) -> Result<(), EnvError> {
        if let Some(before) = self.get(name).map(str::len) {
            self.budget.release(name.len() + 1 + before);
        }
        self.budget.take(|| variable(name), name.len() + 1 + value_bytes)
    }
}

fn from_sources(sources: &Sources<'_>, env: &mut Environment) -> Result<(), EnvError> {
    for from in sources.container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let mut set = |key: &str, bytes: usize, value: &dyn Fn() -> String| -> Result<(), EnvError> {
            let name = format!("{prefix}{key}");
            if !is_variable_name(&name) {
                return Ok(());
            }
            if bytes > Budget::longest() {
                return Err(EnvError::TooLong { subject: variable(&name), bytes });
            }
            env.set(name, value())
        };
        if let Some(reference) = &from.config_map_ref {
            let name = &reference.name;
            match (sources.config_map)(name) {
                Some(map) => {
                    for (key, value) in map.data.iter().flatten() {
                        set(key, value.len(), &|| value.clone())?;
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(EnvError::NoSource { kind: "configmap", name: name.clone() }),
            }
        } else if let Some(reference) = &from.secret_ref {
            let name = &reference.name;
            match (sources.secret)(name) {
                Some(secret) => {
                    for (key, value) in secret.data.iter().flatten() {
                        set(key, value.0.len(), &|| text(&value.0))?;
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(EnvError::NoSource { kind: "secret", name: name.clone() }),
            }
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns true if a key may become a variable: it satisfies Kubernetes' relaxed rule, and a process can hold it.
fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '=')
}

/// The value of one variable; none if an optional source is missing.
fn value_of(sources: &Sources<'_>, var: &EnvVar, env: &Environment) -> Result<Option<String>, EnvError> {
    match &var.value_from {
        None => expand(var.value.as_deref().unwrap_or_default(), |name| env.get(name), Budget::longest())
            .map(Some)
            .map_err(|bytes| EnvError::TooLong { subject: variable(&var.name), bytes }),
        Some(from) => value_from(sources, from),
    }
}

fn value_from(sources: &Sources<'_>, from: &EnvVarSource) -> Result<Option<String>, EnvError> {
    let namespace = || sources.pod.metadata.namespace.clone().unwrap_or_default();
    if let Some(field) = &from.field_ref {
        let path = &field.field_path;
        return field_value(sources.pod, path, sources.pod_ips, sources.host_ips)
            .map(Some)
            .ok_or_else(|| EnvError::Field(path.clone()));
    }
    if let Some(field) = &from.resource_field_ref {
        let named = field.container_name.as_deref().filter(|n| !n.is_empty());
        let other = named.and_then(|name| spec::container(sources.pod, name)).map(|(_, c)| c.into_owned());
        let container = other.as_ref().unwrap_or(sources.container);
        return resource_value(sources.pod, container, field, sources.allocatable)
            .map(Some)
            .ok_or_else(|| EnvError::Resource(field.resource.clone()));
    }
    if let Some(reference) = &from.config_map_key_ref {
        let optional = reference.optional == Some(true);
        let name = reference.name.clone();
        let Some(map) = (sources.config_map)(&name) else {
            return missing(optional, EnvError::NoSource { kind: "configmap", name });
        };
        let key = reference.key.clone();
        let value = map.data.as_ref().and_then(|data| data.get(&key)).cloned();
        let error = EnvError::NoKey { kind: "ConfigMap", namespace: namespace(), name, key };
        return value.map_or_else(|| missing(optional, error), |value| Ok(Some(value)));
    }
    if let Some(reference) = &from.secret_key_ref {
        let optional = reference.optional == Some(true);
        let name = reference.name.clone();
        let Some(secret) = (sources.secret)(&name) else {
            return missing(optional, EnvError::NoSource { kind: "secret", name });
        };
        let key = reference.key.clone();
        let value = secret.data.as_ref().and_then(|data| data.get(&key)).map(|v| text(&v.0));
        let error = EnvError::NoKey { kind: "Secret", namespace: namespace(), name, key };
        return value.map_or_else(|| missing(optional, error), |value| Ok(Some(value)));
    }
    let (Some(reference), Some(env_file)) = (&from.file_key_ref, sources.env_file) else { return Ok(None) };
    let value = env_file(reference)?;
    if value.is_empty() {
        let path = env_file::display_path(reference);
        return missing(
            reference.optional == Some(true),
            EnvError::NoFileKey { key: reference.key.clone(), path },
        );
    }
    Ok(Some(value))
}

fn missing(optional: bool, error: EnvError) -> Result<Option<String>, EnvError> {
    if optional { Ok(None) } else { Err(error) }
}
