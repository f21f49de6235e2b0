//! The options of a test's cluster, and its start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use object::node::is_ready;
use object::{Key, Kind};

use super::clock::ClockChoice;
use super::cluster::{Cluster, Parts};
use super::controllers::Controllers;
use super::error::Error;
use super::faults::Faults;
use super::nodes::HollowNode;
use super::pods::{Behaviours, PodBehaviour};
use super::wait::until;
use super::{definitions, programs};
use cluster::{
    ApiTransport, Cluster as Running, ClusterConfig, ConfigFile, DataDir, EmbedOptions, HostProgram,
    MOST_HOLLOW_NODES, MOST_NODES, parse_config,
};

/// Configures a test's cluster. [`Cluster::start`] uses the defaults: every controller, one hollow node, no listening
/// socket.
#[must_use]
pub struct Builder {
    clock: ClockChoice,
    controllers: Controllers,
    disabled_admission: Vec<String>,
    hollow_count: usize,
    hollow_nodes: Vec<HollowNode>,
    process_nodes: usize,
    program: Option<PathBuf>,
    behaviours: Behaviours,
    door: ApiTransport,
    config: Option<String>,
    // Errors are stored, and `start` returns the first one, because the calls of a builder are chained.
    definitions: Vec<Result<Vec<CustomResourceDefinition>, Error>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: ClockChoice::default(),
            controllers: Controllers::default(),
            disabled_admission: Vec::new(),
            hollow_count: 1,
            hollow_nodes: Vec::new(),
            process_nodes: 0,
            program: None,
            behaviours: Behaviours::default(),
            door: ApiTransport::Process,
            config: None,
            definitions: Vec::new(),
        }
    }
}

impl Builder {
    /// Uses the manual clock: time stands still, and advances only when every task of the runtime waits
    /// ([`Cluster::advance`]). This is the default in a `#[tokio::test(start_paused = true)]`; in any other
    /// single-threaded runtime, the start pauses the runtime's time.
    pub fn manual_clock(self) -> Self {
        Self { clock: ClockChoice::Manual(None), ..self }
    }

    /// Uses the manual clock like [`manual_clock`](Self::manual_clock), but starts it at this time instead of the
    /// current one.
    pub fn manual_clock_at(self, start: Timestamp) -> Self {
        Self { clock: ClockChoice::Manual(Some(start)), ..self }
    }

    /// Chooses the controllers that run, including the scheduler.
    pub fn controllers(self, controllers: Controllers) -> Self {
        Self { controllers, ..self }
    }

    /// Disables an admission plugin, by Kubernetes' name: `ServiceAccount`, `PodSecurity`, `LimitRanger` …
    pub fn without_admission(mut self, plugin: impl Into<String>) -> Self {
        self.disabled_admission.push(plugin.into());
        self
    }

    /// Sets the number of hollow nodes, `hollow-00001` and on; the default is one.
    pub fn hollow_nodes(self, count: usize) -> Self {
        Self { hollow_count: count, ..self }
    }

    /// Adds a hollow node with its own name, labels, taints and capacity, in addition to the nodes of
    /// [`hollow_nodes`](Self::hollow_nodes).
    pub fn hollow_node(mut self, node: HollowNode) -> Self {
        self.hollow_nodes.push(node);
        self
    }

    /// Sets the number of nodes whose containers are processes of this machine, `node-1` and on. With such nodes the
    /// cluster has a network: services can be reached at their addresses, and DNS answers. The nodes need the program
    /// `podium`: on the PATH, named by `$PODIUM`, or [given](Self::process_nodes_by).
    pub fn process_nodes(self, count: usize) -> Self {
        Self { process_nodes: count, ..self }
    }

    /// Sets the program that runs [nodes with processes](Self::process_nodes). It must be of the same version as this
    /// library.
    pub fn process_nodes_by(self, program: impl Into<PathBuf>) -> Self {
        Self { program: Some(program.into()), ..self }
    }

    /// Sets the behavior of pods on hollow nodes; by default they run and are ready.
    pub fn pod_behaviour(self, behaviour: impl Fn(&Pod) -> PodBehaviour + Send + Sync + 'static) -> Self {
        self.behaviours.set(behaviour);
        self
    }

    /// Makes the API also listen on a free port of loopback, for child processes ([`Cluster::kubeconfig`]).
    pub fn listen(self) -> Self {
        Self { door: ApiTransport::Socket, ..self }
    }

    /// Sets timings, limits, images and the scheduler's profiles: YAML, as in Podium's config file.
    pub fn config(self, yaml: impl Into<String>) -> Self {
        Self { config: Some(yaml.into()), ..self }
    }

    /// Adds a definition that is served when the cluster has started: `MyKind::crd()`.
    pub fn crd(self, definition: CustomResourceDefinition) -> Self {
        self.crds([definition])
    }

    /// Adds definitions that are served when the cluster has started.
    pub fn crds(mut self, definitions: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.definitions.push(Ok(definitions.into_iter().collect()));
        self
    }

    /// Adds the definitions of a text (YAML or JSON, any number of documents).
    pub fn crd_text(mut self, text: &str) -> Self {
        self.definitions.push(definitions::of_text(text, "crd_text"));
        self
    }

    /// Adds the definitions of a file, or of every file in a directory and its subdirectories.
    pub fn crd_files(mut self, path: impl AsRef<Path>) -> Self {
        self.definitions.push(definitions::of_files(&path.as_ref().display().to_string()));
        self
    }

    /// Starts the cluster. When this returns, every node is Ready, pods can be created in the namespace `default`, and
    /// every definition is served.
    pub async fn start(mut self) -> Result<Cluster, Error> {
        let clock = self.clock.take()?;
        let has_manual_clock = clock.is_some();
        let pending = std::mem::take(&mut self.definitions);
        let mut definitions = Vec::new();
        for some in pending {
            definitions.extend(some?);
        }
        let host_program = self.host_program(has_manual_clock)?;
        let config = self.cluster_config()?;
        let runs = |name: &str| !config.disabled.iter().any(|disabled| disabled == name);
        let (has_accounts, has_roots) =
            (runs("serviceaccount"), runs("root-ca-certificate-publisher-controller"));
        let faults = Arc::new(Faults::default());
        let embedding = EmbedOptions {
            clock,
            door: self.door,
            host_program,
            director: Some(self.behaviours.director()),
            interceptor: Some(faults.clone()),
        };
        let data_dir = DataDir::temporary().map_err(Error::start)?;
        let running = Running::start_within(config, data_dir, embedding).await.map_err(Error::start)?;
        let parts = Parts { door: self.door, has_manual_clock, faults, behaviours: self.behaviours };
        // From here on, dropping `cluster` ends everything.
        let cluster = Cluster::new(running, parts);
        nodes_ready(&cluster).await?;
        if has_accounts {
            object_exists(&cluster, Kind::ServiceAccount, "default").await?;
        }
        if has_roots {
            // Every pod mounts it.
            object_exists(&cluster, Kind::ConfigMap, "kube-root-ca.crt").await?;
        }
        definitions::install(cluster.api(), definitions).await?;
        Ok(cluster)
    }

    fn host_program(&self, has_manual_clock: bool) -> Result<HostProgram, Error> {
        match self.process_nodes {
            0 => Ok(HostProgram::Absent),
            _ if has_manual_clock => Err(Error::ProcessesOnManualClock),
            _ => programs::podium(self.program.clone()).map(HostProgram::At),
        }
    }

    fn cluster_config(&mut self) -> Result<ClusterConfig, Error> {
        let mut disabled = self.controllers.disabled()?;
        if let Some(unknown) = self.disabled_admission.iter().find(|name| !is_plugin(name)) {
            let known: Vec<_> = api::admission::plugin_names().collect();
            let message = format!("no admission plugin \"{unknown}\"; the plugins are {}", known.join(", "));
            return Err(Error::Component(message));
        }
        disabled.append(&mut self.disabled_admission);
        for (count, most) in [(self.hollow_count, MOST_HOLLOW_NODES), (self.process_nodes, MOST_NODES)] {
            if count > usize::from(most) {
                return Err(Error::Config(format!(
                    "{count} nodes of this kind; at most {most} are possible"
                )));
            }
        }
        if self.process_nodes == 0 {
            // Hollow pods do not accept connections, so proxy, DNS and ingress would be of no use.
            disabled.extend(["proxy", "dns", "ingress"].map(String::from));
        }
        let mut config = ClusterConfig {
            ephemeral: true,
            listen: Some(([127, 0, 0, 1], 0).into()),
            nodes: Some(self.process_nodes),
            hollow_nodes: Some(self.hollow_count),
            disabled,
            ..ClusterConfig::default()
        };
        let read = |text: &str, config: &ClusterConfig| {
            parse_config(text, "config", config).map_err(|error| Error::Config(error.to_string()))
        };
        if let Some(text) = &self.config {
            config.file = read(text, &config)?;
        }
        if !self.hollow_nodes.is_empty() {
            let nodes = std::mem::take(&mut self.hollow_nodes);
            config.file.nodes.extend(nodes.into_iter().map(HollowNode::settings));
            // The options are validated in the same way as the content of a config file.
            let whole: ConfigFile = config.file.clone();
            let text = serde_json::to_string(&whole).map_err(|error| Error::Config(error.to_string()))?;
            config.file = read(&text, &config)?;
        }
        Ok(config)
    }
}

impl Cluster {
    /// Starts a cluster with every controller, the scheduler and one hollow node; only this process reaches its API.
    ///
    /// In a `#[tokio::test(start_paused = true)]` it has the manual clock, else the machine's.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Returns a builder, to choose the cluster's options.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

fn is_plugin(name: &str) -> bool {
    api::admission::plugin_names().any(|known| known == name)
}

/// Waits until every node is Ready.
async fn nodes_ready(cluster: &Cluster) -> Result<(), Error> {
    let api = cluster.api();
    let late = || {
        let nodes = api.list_as::<Node>(None);
        let late = nodes.iter().filter(|node| !is_ready(node)).map(|node| node.name().to_string());
        format!("not Ready: {}", late.collect::<Vec<_>>().join(", "))
    };
    until(api, Kind::Node, late, || api.list_as::<Node>(None).iter().all(|node| is_ready(node)).then_some(()))
        .await
}

/// Waits until the namespace `default` has an object of this kind and name.
async fn object_exists(cluster: &Cluster, kind: Kind, name: &str) -> Result<(), Error> {
    let (api, key) = (cluster.api(), Key::new("default", name));
    until(api, kind, || format!("{kind} {key} does not exist"), || api.get(kind, &key).ok().map(drop)).await
}
