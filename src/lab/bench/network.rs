//! The pods' own network, compared with the machine's loopback (NET-5, NET-6, NET-7): throughput and connections.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{LogParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client};
use serde_json::json;

use super::instance::Instance;
use super::report::Report;
use super::rules::{self, Rules};
use super::traffic::TrafficResult;

/// Duration of each measurement.
const EACH: Duration = Duration::from_secs(2);
/// Number of pod networks to create, and the limit for each in milliseconds, of which the kernel needs two.
const LEAVES: u8 = 200;
const GOAL_MILLISECONDS: f64 = 3.0;
/// Maximum time for a pod to start and end, without its measurements.
const POD_TIMEOUT: Duration = Duration::from_secs(30);
/// Port of the server in a pod.
const PORT: u16 = 5201;
/// The packet size of most networks, and the largest possible one.
const MTUS: [u32; 2] = [1500, 65_535];

/// A network path whose connections are compared with loopback's in the same run.
struct NetworkPath {
    name: &'static str,
    result: TrafficResult,
}

/// Measures each path with both packet sizes.
pub(super) async fn run() -> Result<()> {
    for mtu in MTUS {
        let outside = Server::start()?;
        let loopback = run_local_client(&format!("127.0.0.1:{}", outside.port))?;
        let ways = measure(mtu, outside.port).await?;
        let gigabits = |found: &TrafficResult| found.bytes_per_second * 8.0 / 1e9;
        for NetworkPath { name, result: found } in &ways {
            let label = format!("{name}, MTU {mtu}");
            Report::against_limit(&label, "Gbit/s", gigabits(found), "loopback", gigabits(&loopback));
        }
        // The packet size does not affect these measurements.
        if mtu != MTUS[0] {
            continue;
        }
        let direct = &ways[0].result;
        for (place, NetworkPath { name, result: found }) in ways.iter().enumerate() {
            let label = format!("  {name}, connections");
            let (beside, limit) = if place == 0 { ("loopback", &loopback) } else { ("pod → pod", direct) };
            Report::against_limit(
                &label, "/s", found.connections_per_second, beside, limit.connections_per_second,
            );
            Report::against_limit(
                "    median", "µs", found.connection_micros, beside, limit.connection_micros,
            );
        }
    }
    let made = traffic(&std::env::current_exe()?).args(["leaves", &LEAVES.to_string()]).output()?;
    let output = String::from_utf8_lossy(&made.stdout);
    let seconds: f64 =
        output.trim().parse().with_context(|| String::from_utf8_lossy(&made.stderr).into_owned())?;
    let each = seconds * 1000.0 / f64::from(LEAVES);
    Report::against_limit("creating a pod's network", "ms", each, "goal", GOAL_MILLISECONDS);
    rules()
}

/// Measures updates of the kernel's rules, and compares them with their limits.
fn rules() -> Result<()> {
    let made = traffic(&std::env::current_exe()?).arg("rules").output()?;
    let output = String::from_utf8_lossy(&made.stdout);
    let found: Rules = serde_json::from_str(output.trim())
        .with_context(|| String::from_utf8_lossy(&made.stderr).into_owned())?;
    let services = format!("{} services × {} endpoints", rules::SERVICES, rules::ENDPOINTS);
    let policies = format!("{} policies × {} pods", rules::POLICIES, rules::PODS);
    for (what, value, goal) in [
        (format!("{services}, all"), found.services, 5000.0),
        ("  one slice changed".to_owned(), found.service, 10.0),
        (format!("  {} services created at once", rules::AT_ONCE), found.made, 1000.0),
        ("  deleted at once".to_owned(), found.deleted, 1000.0),
        (format!("{policies}, all"), found.policies, 5000.0),
        ("  one pod more".to_owned(), found.pod, 50.0),
        ("  one policy changed".to_owned(), found.policy, 50.0),
    ] {
        Report::against_limit(&what, "ms", value, "goal", goal);
    }
    Report::alone("  memory of it, with the objects", "MiB", found.mebibytes);
    Ok(())
}

/// Measures all paths through a new cluster, pod → pod first; `outside` is a port of the machine's loopback.
async fn measure(mtu: u32, outside: u16) -> Result<Vec<NetworkPath>> {
    let config = std::env::temp_dir().join(format!("podium-bench-{}-{mtu}.yaml", std::process::id()));
    std::fs::write(&config, format!("network: {{mtu: {mtu}, hostPorts: [{outside}]}}\n"))?;
    let path = config.to_str().context("the path of the temporary directory is not UTF-8")?;
    let started = Instance::start(&["--nodes", "2", "--network", "fabric", "--config", path]).await;
    let _ = std::fs::remove_file(&config);
    let instance = started?;
    let cluster = PodTraffic::new(instance.client().await?)?;
    let (server, node_port) = cluster.serve().await?;
    let mut ways = Vec::new();
    for (name, to) in [
        ("pod → pod", format!("{server}:{PORT}")),
        ("pod → ClusterIP", format!("server:{PORT}")),
        ("pod → the machine (the way out)", format!("host.podium.internal:{outside}")),
    ] {
        ways.push(NetworkPath { name, result: cluster.run_client(&to).await.context(name)? });
    }
    let found =
        tokio::task::spawn_blocking(move || run_local_client(&format!("127.0.0.1:{node_port}"))).await??;
    ways.push(NetworkPath { name: "the machine → pod (node port)", result: found });
    instance.stop().await?;
    Ok(ways)
}

/// Runs the traffic program in pods.
struct PodTraffic {
    client: Client,
    program: String,
}

impl PodTraffic {
    fn new(client: Client) -> Result<Self> {
        let program =
            std::env::current_exe()?.to_str().context("this program's path is not UTF-8")?.to_owned();
        Ok(Self { client, program })
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str, node: &str, arguments: &[&str]) -> Result<()> {
        let command: Vec<&str> =
            [self.program.as_str(), super::TRAFFIC_PROGRAM].iter().chain(arguments).copied().collect();
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "host", "command": command}]}});
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    async fn until(&self, name: &str, timeout: Duration, condition: impl Condition<Pod>) -> Result<Pod> {
        let waited = tokio::time::timeout(timeout, await_condition(self.pods(), name, condition)).await;
        let pod = waited.with_context(|| format!("timed out waiting for pod {name}"))??;
        pod.with_context(|| format!("pod {name} was deleted"))
    }

    /// Starts the server with its service. Returns the pod's address and the service's node port.
    async fn serve(&self) -> Result<(String, u16)> {
        self.create("server", "node-1", &["serve", &PORT.to_string()]).await?;
        let service = json!({"metadata": {"name": "server"},
            "spec": {"type": "NodePort", "selector": {"app": "server"}, "ports": [{"port": PORT}]}});
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let service = services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        let node_port = service.spec.and_then(|spec| spec.ports?.first()?.node_port);
        let running = |pod: Option<&Pod>| phase(pod) == Some("Running");
        let pod = self.until("server", POD_TIMEOUT, running).await?;
        let ip = pod.status.and_then(|status| status.pod_ip).context("the server has no address")?;
        Ok((ip, u16::try_from(node_port.context("the service has no node port")?)?))
    }

    /// Runs the client in a pod of the other node, and returns its measurements.
    async fn run_client(&self, to: &str) -> Result<TrafficResult> {
        const NAME: &str = "client";
        self.create(NAME, "node-2", &["ask", to, &EACH.as_secs_f64().to_string()]).await?;
        let ended = |pod: Option<&Pod>| matches!(phase(pod), Some("Succeeded" | "Failed"));
        let pod = self.until(NAME, POD_TIMEOUT + EACH * 4, ended).await?;
        let log = self.pods().logs(NAME, &LogParams::default()).await?;
        if phase(Some(&pod)) != Some("Succeeded") {
            bail!("{}", log.trim());
        }
        self.pods().delete(NAME, &kube::api::DeleteParams::default().grace_period(0)).await?;
        let uid = pod.metadata.uid.unwrap_or_default();
        let deleted = kube::runtime::conditions::is_deleted(&uid);
        tokio::time::timeout(POD_TIMEOUT, await_condition(self.pods(), NAME, deleted)).await??;
        serde_json::from_str(log.trim()).with_context(|| log.clone())
    }
}

fn phase(pod: Option<&Pod>) -> Option<&str> {
    pod?.status.as_ref()?.phase.as_deref()
}

/// A server on the machine itself.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Result<Self> {
        let mut command = traffic(&std::env::current_exe()?);
        let mut process = command.args(["serve", "0"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("stdout is a pipe")?).read_line(&mut line)?;
        let port =
            line.trim().parse().with_context(|| format!("the server printed {line:?} instead of a port"))?;
        Ok(Self { process, port })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error only means that the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn traffic(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(super::TRAFFIC_PROGRAM);
    command
}

/// Runs the client on the machine itself.
fn run_local_client(to: &str) -> Result<TrafficResult> {
    let seconds = EACH.as_secs_f64().to_string();
    let output = traffic(&std::env::current_exe()?).args(["ask", to, &seconds]).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
