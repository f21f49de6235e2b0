//! Starting, readiness and stopping of a whole cluster.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::Node;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::actors::Actors;
use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::data_dir::DataDir;
use super::embedding::{ApiTransport, EmbedOptions};
use super::error::StartError;
use super::fabric::{ClusterFabric, HANG_UP};
use super::faults::FaultTargets;
use super::fixed_services::API_OFFSET;
use super::network_entry::NetworkEntry;
use super::network_placement::NetworkPlacement;
use super::nodes::Nodes;
use super::snapshots::{self, SnapshotTargets};
use super::startup_writes::StartupWrites;
use super::{bootstrap, client, housekeeping, kubeconfig, network, panics, self_check};
use api::identity::Signer;
use api::{Api, ApiConfig};
use apimachinery::certificates::{CertificateAuthority, FrontProxy, TlsError};
use apiserver::audit::AuditLog;
use apiserver::{Credentials, Limits, Server, ServerConfig, serve_tls, tls_config};
use base::clock::Clock;
use base::dial::{Dialer, LocalDialer};
use base::task::Tasks;
use object::node::is_ready;
use object::{Kind, SharedObject};
use operators::faults::{NodeFaults, active_faults_at_start};
use reconcile::Caches;
use store::{LossPolicy, Store, StoreError};

/// The API's default port.
const DEFAULT_PORT: u16 = 6443;

/// The progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopProgress {
    /// Pods whose containers have not ended.
    pub remaining_pods: usize,
}

/// The interval between two reports of a stop's progress.
pub const STOP_PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// A running cluster.
pub struct Cluster {
    api: Api,
    server: Server,
    /// The tasks of controllers, scheduler and kubelets, which stop first.
    actors: Tasks,
    /// The tasks of the listener and of housekeeping, which stop last.
    base: Tasks,
    store: Store,
    address: SocketAddr,
    kubeconfig: PathBuf,
    kubelets: Nodes,
    audit: Option<AuditLog>,
    fabric: Option<Arc<ClusterFabric>>,
    // The slot of addresses and the data directory stay reserved until this is dropped.
    _addresses: Arc<AddressPlan>,
    _data_dir: DataDir,
}

impl Cluster {
    /// Starts everything; the API is available when this returns.
    pub async fn start(config: ClusterConfig, data_dir: DataDir) -> Result<Self, StartError> {
        Self::start_within(config, data_dir, EmbedOptions::default()).await
    }

    /// Like [`Cluster::start`], for a program that embeds the cluster, with settings that flags cannot express.
    pub async fn start_within(
        config: ClusterConfig,
        data_dir: DataDir,
        embedding: EmbedOptions,
    ) -> Result<Self, StartError> {
        let (listener, address) = open_listener(&config, &embedding, &data_dir).await?;
        let NetworkPlacement { addresses, fabric, note } =
            NetworkPlacement::find(&data_dir, &config, &embedding).await?;
        let store = open_store(&data_dir, &config).await?;
        let clock = embedding.clock.clone().unwrap_or_else(Clock::machine);
        let api_config = api_config(&config, &data_dir, &addresses, fabric.as_ref())?;
        let api = Api::new(store.clone(), clock, api_config);
        let (base, actors) = (Tasks::noting(api.contained()), Tasks::noting(api.contained()));
        let starting = StartingCluster {
            config: &config,
            embedding: &embedding,
            data_dir: &data_dir,
            addresses: &addresses,
            fabric: fabric.as_ref(),
            api: &api,
            store: &store,
            base: &base,
            actors: &actors,
            listen_ip: address.ip(),
            reachable: SocketAddr::new(reachable(address.ip()), address.port()),
            writes: StartupWrites { store: store.clone(), tasks: base.clone() },
        };
        starting.write_own_objects()?;

        let guard = StartGuard { api: &api, tasks: vec![actors.clone(), base.clone()] };
        housekeeping::start(&api, &base);
        let authority = Arc::new(authority(&data_dir)?);
        let token = data_dir.token(new_token)?;
        let (server, audit) = starting.server(&authority, &token)?;
        let kubeconfig = starting.serve(&server, listener, &authority, &token)?;
        let caches = Caches::new(&api, &actors);
        let (control_loops, faults) = starting.start_control_loops(&caches, &authority).await?;
        let kubelets = starting.start_nodes(&caches, note, faults).await?;
        starting.start_supervisors(&caches, &server, control_loops, &kubelets);
        guard.stays();
        let address = starting.reachable;
        Ok(Self {
            api,
            server,
            actors,
            base,
            store,
            address,
            kubeconfig,
            kubelets,
            audit,
            fabric,
            _addresses: addresses,
            _data_dir: data_dir,
        })
    }

    /// The API in this process.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// A Kubernetes client of this cluster that needs no socket.
    pub fn client(&self) -> kube::Client {
        self.client_with(http::HeaderMap::new())
    }

    /// Like [`Cluster::client`], with default headers for its requests.
    pub fn client_with(&self, headers: http::HeaderMap) -> kube::Client {
        client::in_process(self.server.clone(), headers)
    }

    /// Returns the nodes of the cluster.
    pub fn nodes(&self) -> &Nodes {
        &self.kubelets
    }

    /// Kills the nodes' processes, which takes some seconds at most, and cancels all tasks without waiting for their
    /// ends.
    pub fn abandon(&self) {
        self.killer()();
        self.actors.cancel();
        self.base.cancel();
        self.api.clear();
    }

    /// The URL of the API.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The kubeconfig that was written.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Waits until every node that ran at the start is Ready, except nodes that were deleted since. Returns at once if
    /// the store refuses writes, since nodes cannot become Ready before a user frees space.
    pub async fn ready(&self) {
        let mut watcher = self.api.watch(Kind::Node, self.api.revision(), store::Visibility::Applied);
        loop {
            let nodes = self.api.list_as::<Node>(None);
            let late: HashSet<&str> =
                nodes.iter().filter(|node| !is_ready(node)).map(SharedObject::name).collect();
            if !self.kubelets.names().iter().any(|name| late.contains(name.as_str())) {
                return;
            }
            if let Some(reason) = self.store.refuses_writes() {
                tracing::warn!("writes are refused ({reason}); {} nodes are not Ready", late.len());
                return;
            }
            // Ends at a change of a node. If the watch has fallen behind, the list above is read again.
            let _ = tokio::time::timeout(Duration::from_secs(1), watcher.next()).await;
        }
    }

    /// Returns a function that kills every node's host with all its processes, and ends the pods' network. It works
    /// even if everything else hangs, and blocks for some seconds at most.
    pub fn killer(&self) -> impl FnOnce() + Send + use<> {
        let (of_nodes, fabric) = (self.kubelets.killer(), self.fabric.clone());
        move || {
            of_nodes();
            if let Some(fabric) = fabric {
                fabric.stop(Duration::ZERO);
            }
        }
    }

    /// Ends every pod with its grace period, then everything else. `force` cuts the grace periods short.
    pub async fn stop(
        self,
        progress: impl Fn(StopProgress) + Send + Sync + 'static,
        force: CancellationToken,
    ) {
        // The API's objects do not say what still runs: the pods stay as they were for the next start.
        let nodes = self.kubelets.clone();
        let counting = async move {
            loop {
                progress(StopProgress { remaining_pods: nodes.live_pods() });
                tokio::time::sleep(STOP_PROGRESS_INTERVAL).await;
            }
        };
        tokio::select! {
            () = counting => {}
            () = self.kubelets.shutdown(force) => {}
        }
        self.actors.stop().await;
        self.base.stop().await;
        if let Some(audit) = &self.audit {
            audit.flush().await;
        }
        if let Some(fabric) = self.fabric {
            let _ = base::task::blocking(move || fabric.stop(HANG_UP)).await;
        }
        let store = self.store.clone();
        // `close` waits for the disk thread, so it must not run on a runtime thread.
        let _ = base::task::blocking(move || store.close()).await;
    }
}

/// A cluster during its start: the parts that each step uses.
struct StartingCluster<'a> {
    config: &'a ClusterConfig,
    embedding: &'a EmbedOptions,
    data_dir: &'a DataDir,
    addresses: &'a Arc<AddressPlan>,
    fabric: Option<&'a Arc<ClusterFabric>>,
    api: &'a Api,
    store: &'a Store,
    /// The tasks of the listener and of housekeeping.
    base: &'a Tasks,
    /// The tasks of controllers, scheduler and kubelets.
    actors: &'a Tasks,
    listen_ip: IpAddr,
    /// The address at which this machine reaches the API.
    reachable: SocketAddr,
    writes: StartupWrites,
}

impl StartingCluster<'_> {
    /// The address at which pods reach the API, if they have a network of their own.
    fn inside(&self) -> Option<SocketAddr> {
        self.fabric.map(|fabric| SocketAddr::new(fabric.address().into(), DEFAULT_PORT))
    }

    /// Returns the API's address for pods, and that of its service.
    fn api_addresses(&self) -> (SocketAddr, Ipv4Addr) {
        (self.inside().unwrap_or(self.reachable), self.addresses.service(API_OFFSET))
    }

    /// Writes the objects that every cluster has.
    fn write_own_objects(&self) -> Result<(), StartError> {
        let (api, (listening, service)) = (self.api.clone(), self.api_addresses());
        let serves_ingresses = self.config.serves_ingresses();
        self.writes.perform("the cluster's own objects", move || {
            bootstrap::bootstrap(&api, listening, service)?;
            if serves_ingresses { bootstrap::ingress_class(&api) } else { Ok(()) }
        })?;
        Ok(())
    }

    /// Creates the server, with its audit log if there is one.
    fn server(
        &self,
        authority: &CertificateAuthority,
        token: &str,
    ) -> Result<(Server, Option<AuditLog>), StartError> {
        let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let served = ServerConfig {
            address: Some(self.reachable),
            limits: open_files.map_or_else(Limits::default, Limits::with_descriptors),
        };
        let credentials = Credentials::new(token).with_certificates_of(&authority.certificate_pem)?;
        let mut server = Server::new(self.api.clone(), credentials, self.base.stopping(), served);
        if let Some(interceptor) = self.embedding.interceptor.clone() {
            server = server.intercepted_by(interceptor);
        }
        let audit = self.config.file.audit.start(self.api)?;
        if let Some(log) = audit.clone() {
            server = server.audited_by(log);
        }
        Ok((server, audit))
    }

    /// Serves the API at the listener, if there is one, and inside the pods' network. Returns the path of the
    /// kubeconfig, which is written for a listener.
    fn serve(
        &self,
        server: &Server,
        listener: Option<TcpListener>,
        authority: &CertificateAuthority,
        token: &str,
    ) -> Result<PathBuf, StartError> {
        let (config, data_dir) = (self.config, self.data_dir);
        let path = config.kubeconfig.clone().unwrap_or_else(|| data_dir.path().join("kubeconfig"));
        if let Some(listener) = listener {
            let mut names =
                vec![self.listen_ip, Ipv4Addr::LOCALHOST.into(), self.addresses.service(API_OFFSET).into()];
            names.extend(self.inside().map(|inside| inside.ip()));
            let tls = tls_config(authority, &names, &config.file.cluster_domain)?;
            if let Some(fabric) = self.fabric {
                let listener = fabric.listen(SocketAddr::new(fabric.address().into(), DEFAULT_PORT))?;
                serve_tls(server.clone(), listener, tls.clone(), self.base);
            }
            serve_tls(server.clone(), listener, tls, self.base);

            let url = format!("https://{}", self.reachable);
            let own = kubeconfig::new(&url, &authority.certificate_pem, token);
            // Written here even if the user sets another path, because `podium apply` and similar commands find the
            // instance by this file (CLI-4).
            data_dir.write("kubeconfig", &manifest::to_yaml(&own))?;
            if config.kubeconfig.is_some() {
                kubeconfig::add_to(&path, &own)?;
            }
        }
        Ok(std::path::absolute(&path).unwrap_or(path))
    }

    /// Starts controllers and scheduler, unless a restore of a snapshot is to be continued first. Returns the faults of
    /// nodes that were in force at the last stop.
    async fn start_control_loops(
        &self,
        caches: &Caches,
        authority: &Arc<CertificateAuthority>,
    ) -> Result<(Arc<Actors>, NodeFaults), StartError> {
        let (api, config) = (self.api, self.config);
        let balancers = self.addresses.balancers().filter(|_| !config.is_disabled("proxy"));
        let data_dir = self.data_dir.path();
        let control_loops = Actors::new(api, caches, self.actors, config, authority, balancers, data_dir)?;
        let control_loops = Arc::new(control_loops);
        // Faults that were in force at the last stop apply before any control loop or node starts.
        let standing = active_faults_at_start(api, control_loops.names());
        control_loops.set_faults(standing.actors).await;
        snapshots::take_over(api, self.data_dir)?;
        if !operators::snapshots::is_restoring(api) {
            control_loops.restart_all().await;
        }
        Ok((control_loops, standing.nodes))
    }

    /// Starts the network and the nodes. `note` is the note about the network that nodes show.
    async fn start_nodes(
        &self,
        caches: &Caches,
        note: Option<String>,
        faults: NodeFaults,
    ) -> Result<Nodes, StartError> {
        let (api, actors, config, addresses) = (self.api, self.actors, self.config, self.addresses);
        if config.serves_ingresses() {
            network::start_ingress(api, caches, actors, config, addresses, self.fabric);
        }
        let network = network::start(api, caches, actors, config, addresses, self.fabric, &self.writes)?;
        let dns = network.dns;
        let (of_config, of_network) = ((config, self.embedding), (addresses, network, note));
        let kubelets =
            Nodes::start((api, caches, actors), of_config, of_network, self.data_dir, faults).await?;
        if let Some(fabric) = self.fabric {
            let nodes = (fabric.nodes(), fabric.nodes_v6());
            NetworkEntry::new(nodes, config.file.network.mtu, addresses, dns, &config.file.cluster_domain)
                .write(self.data_dir)?;
            fabric.keep(api, actors);
        }
        Ok(kubelets)
    }

    /// Starts the controllers of Podium's own objects, and the checks of the cluster itself.
    fn start_supervisors(
        &self,
        caches: &Caches,
        server: &Server,
        control_loops: Arc<Actors>,
        kubelets: &Nodes,
    ) {
        let (api, actors) = (self.api, self.actors);
        let (listening, service) = self.api_addresses();
        bootstrap::keep(api, actors, listening, service);
        let data_dir = self.data_dir.path().to_path_buf();
        let v6 = self.addresses.v6().map(|v6| v6.services.into());
        let services = std::iter::once(self.addresses.services().into()).chain(v6).collect();
        let of_snapshots = SnapshotTargets::new(control_loops.clone(), data_dir.clone(), services);
        operators::definitions::start(api, caches, actors);
        operators::fencing::start(api, caches, actors, kubelets);
        let agent = http::HeaderValue::from_static("podium-scenarios");
        let headers = http::HeaderMap::from_iter([(http::header::USER_AGENT, agent)]);
        let player = client::in_process(server.clone(), headers);
        operators::scenarios::start(api, caches, actors, player, self.config.runs_file.clone());
        let targets = (control_loops, kubelets.clone(), self.store.clone());
        let targets = |changed| FaultTargets::new(targets, data_dir, actors, changed);
        operators::faults::start(api, caches, actors, targets);
        operators::snapshots::start(api, caches, actors, of_snapshots);
        self_check::start(api, self.store, caches, actors);
        panics::start(api, actors);
    }
}

/// Ends the tasks of a start, and clears the API, if the start fails or its future is dropped.
struct StartGuard<'a> {
    api: &'a Api,
    /// The tasks to end; empty once the start is done.
    tasks: Vec<Tasks>,
}

impl StartGuard<'_> {
    /// Marks the start as done.
    fn stays(mut self) {
        self.tasks.clear();
    }
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        if !self.tasks.is_empty() {
            self.tasks.iter().for_each(Tasks::cancel);
            self.api.clear();
        }
    }
}

fn default_address() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PORT)
}

/// The address at which clients on this machine reach a server with this listen address.
fn reachable(ip: IpAddr) -> IpAddr {
    if ip.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { ip }
}

/// Binds the API's listener, unless the cluster has no socket. Returns it with its address.
async fn open_listener(
    config: &ClusterConfig,
    embedding: &EmbedOptions,
    data_dir: &DataDir,
) -> Result<(Option<TcpListener>, SocketAddr), StartError> {
    let listener = match embedding.door {
        ApiTransport::Socket => Some(listen(config, data_dir).await?),
        ApiTransport::Process => None,
    };
    let local = listener.as_ref().map(TcpListener::local_addr).transpose();
    let address = local
        .map_err(|source| StartError::Listen {
            address: config.listen.unwrap_or_else(default_address),
            source,
        })?
        .unwrap_or_else(default_address);
    let ingress = SocketAddr::new(config.file.ingress.address, config.file.ingress.http_port);
    if config.serves_ingresses() && !ingress.ip().is_loopback() && !config.expose {
        return Err(StartError::Exposed(ingress));
    }
    Ok((listener, address))
}

/// Returns the API's settings, with its keys from the data directory.
fn api_config(
    config: &ClusterConfig,
    data_dir: &DataDir,
    addresses: &AddressPlan,
    fabric: Option<&Arc<ClusterFabric>>,
) -> Result<ApiConfig, StartError> {
    let token_key = data_dir.secret("sa.key", Signer::generate_key)?;
    let front_proxy = FrontProxy::new(&front_proxy_authority(data_dir)?)?;
    Ok(ApiConfig {
        front_proxy: Some(Arc::new(front_proxy)),
        token_signer: Some(Arc::new(Signer::new(&token_key).map_err(StartError::TokenKey)?)),
        timings: config.file.timings.clone(),
        cluster_domain: config.file.cluster_domain.clone(),
        service_range: addresses.services(),
        service_range_v6: addresses.v6().map(|v6| v6.services),
        limits: config.file.limits.clone(),
        disabled_admission: config.disabled.clone(),
        legacy_versions: config.legacy_versions || config.file.removed_api_versions,
        network_policies: fabric.is_some() && !config.is_disabled("proxy"),
        dialer: fabric.map_or_else(|| Arc::new(LocalDialer) as Dialer, ClusterFabric::dialer),
    })
}

async fn listen(config: &ClusterConfig, data_dir: &DataDir) -> Result<TcpListener, StartError> {
    let address = config.listen.unwrap_or_else(default_address);
    if !address.ip().is_loopback() && !config.expose {
        return Err(StartError::Exposed(address));
    }
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        // The user did not request port 6443 explicitly.
        Err(error) if config.listen.is_none() && error.kind() == std::io::ErrorKind::AddrInUse => {
            // Clients that are running find the cluster at the port that it had before.
            let last_port = data_dir.read("kubeconfig").and_then(|text| kubeconfig::port(&text));
            if let Some(port) = last_port
                && let Ok(listener) = TcpListener::bind(SocketAddr::new(address.ip(), port)).await
            {
                return Ok(listener);
            }
            let any = SocketAddr::new(address.ip(), 0);
            TcpListener::bind(any).await.map_err(|source| StartError::Listen { address: any, source })
        }
        Err(source) => Err(StartError::Listen { address, source }),
    }
}

async fn open_store(data_dir: &DataDir, config: &ClusterConfig) -> Result<Store, StartError> {
    if config.ephemeral {
        return Ok(Store::ephemeral());
    }
    let directory = data_dir.directory("state")?;
    let loss = if config.accept_data_loss { LossPolicy::Accepted } else { LossPolicy::Refused };
    let opened = base::task::blocking(move || Store::open_with(&directory, loss)).await;
    Ok(opened.map_err(|e| StoreError::Disk(e.to_string()))??)
}

fn authority(data_dir: &DataDir) -> Result<CertificateAuthority, StartError> {
    load_certificate_authority(data_dir, "ca", CertificateAuthority::generate)
}

/// The authority that extension servers trust for the identity of a request's user.
fn front_proxy_authority(data_dir: &DataDir) -> Result<CertificateAuthority, StartError> {
    load_certificate_authority(data_dir, "front-proxy-ca", FrontProxy::generate_authority)
}

fn load_certificate_authority(
    data_dir: &DataDir,
    name: &str,
    generate: fn() -> Result<CertificateAuthority, TlsError>,
) -> Result<CertificateAuthority, StartError> {
    let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
    if let (Some(certificate_pem), Some(key_pem)) = (data_dir.read(&certificate), data_dir.read_secret(&key)?)
    {
        return Ok(CertificateAuthority { certificate_pem, key_pem });
    }
    let authority = generate()?;
    data_dir.write(&key, &authority.key_pem)?;
    data_dir.write(&certificate, &authority.certificate_pem)?;
    Ok(authority)
}

/// 256 random bits.
fn new_token() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}
