//! A running `podium serve`, for tests that need the real binary.

use podium::base::optional_file::read_optional;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, LogParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use podium::cluster::apply::{DEFAULT_NAMESPACE, Mode, apply_documents};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

pub(crate) use crate::processes::{ChildGuard, HostDirectory, WAIT_TIMEOUT, pause, wait_for};

/// A data directory for several instances, one after the other.
pub(crate) struct DataDir {
    directory: HostDirectory,
}

impl DataDir {
    pub(crate) fn new() -> Self {
        Self { directory: HostDirectory::new() }
    }

    /// A directory that every user may write to.
    pub(crate) fn for_everyone() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let home = Self::new();
        let everyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(home.directory.path(), everyone).unwrap();
        home
    }

    /// A directory that every user may write to, at a path where containers of users' images see the machine's
    /// directories, because they have their own `/tmp`.
    pub(crate) fn visible_to_containers() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let home = Self { directory: HostDirectory::in_directory("/var/tmp") };
        let everyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(home.directory.path(), everyone).unwrap();
        home
    }

    /// The program at a path that every user can reach: this repository may be below a home directory.
    pub(crate) fn program(&self) -> PathBuf {
        let (program, reachable) = (env!("CARGO_BIN_EXE_podium"), self.path("podium"));
        std::fs::hard_link(program, &reachable)
            .or_else(|_| std::fs::copy(program, &reachable).map(drop))
            .unwrap();
        reachable
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// `podium fault …` of the instance here.
    pub(crate) fn fault(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.arg("fault").args(arguments).arg("--data-dir").arg(self.data_dir());
        command.output().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts an instance with a persistent state, and waits for its ready line.
    pub(crate) fn start(&self, arguments: &[&str]) -> Instance {
        Instance::start(&self.data_dir(), arguments)
    }

    /// Starts an instance by a command of the test, which sets the path of its kubeconfig.
    pub(crate) fn start_command(command: &mut Command, kubeconfig: &Path) -> Instance {
        Instance::spawn(command, kubeconfig.to_path_buf())
    }
}

/// One process, killed when dropped.
pub(crate) struct Instance {
    child: ChildGuard,
    pub(crate) ready_line: String,
    kubeconfig: PathBuf,
}

impl Instance {
    fn start(data_dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir).args(arguments);
        Self::spawn(&mut command, data_dir.join("kubeconfig"))
    }

    /// Waits for the ready line (CLI-3).
    fn spawn(command: &mut Command, kubeconfig: PathBuf) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // Not the directory of the user that runs the tests.
        command.env("XDG_STATE_HOME", kubeconfig.parent().unwrap_or(Path::new("/")).with_extension("state"));
        let mut child = ChildGuard::spawn(command);
        let mut ready_line = String::new();
        let stdout = child.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut ready_line).unwrap();
        assert!(ready_line.starts_with("ready https://127.0.0.1:"), "{ready_line:?}");
        Self { child, ready_line, kubeconfig }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The address at which this machine reaches one of the cluster's: the same, or its mirror address if pods have
    /// networks of their own (NET-7).
    pub(crate) fn on_machine(&self, ip: &str) -> String {
        let data_dir = self.kubeconfig.parent().unwrap();
        let network = read_optional(data_dir.join("network"));
        let Some(ranges) = network.strip_prefix("fabric ") else { return ip.to_owned() };
        let slot: u8 = std::fs::read_to_string(data_dir.join("slot")).unwrap().trim().parse().unwrap();
        let ip: Ipv4Addr = ip.parse().unwrap();
        for (range, second) in ranges.split_whitespace().zip([64 + 4 * slot, 32 + slot, 16 + slot]) {
            let range: ipnet::Ipv4Net = range.split_once('=').unwrap().1.parse().unwrap();
            if range.contains(&ip) {
                let beyond = ip.to_bits() - range.network().to_bits();
                return Ipv4Addr::from_bits(Ipv4Addr::new(127, second, 0, 0).to_bits() + beyond).to_string();
            }
        }
        panic!("{ip} is in no range of {network}");
    }

    /// Returns a client over HTTPS, like any user's.
    pub(crate) async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.client_config().await).unwrap()
    }

    /// A client without retries: it returns every response, also those that ask for another try.
    pub(crate) async fn impatient_client(&self) -> kube::Client {
        let mut config = self.client_config().await;
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    async fn client_config(&self) -> kube::Config {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).unwrap();
    }

    /// Waits for the process to end and returns its exit code; -1 when a signal ended it.
    pub(crate) fn wait(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < WAIT_TIMEOUT, "the process does not end");
            pause();
        }
    }

    /// Kills it with SIGKILL.
    pub(crate) fn crash(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Stops it with SIGTERM; it must exit successfully.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), 0, "a clean stop exits 0");
    }

    /// Runs kubectl and returns its output; it must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_output(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs this with a client, on a thread of its own because the test may be asynchronous.
    fn with_client<T: Send>(&self, work: impl AsyncFnOnce(kube::Client) -> T + Send) -> T {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { work(self.client().await).await })
        };
        match std::thread::scope(|scope| scope.spawn(run).join()) {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Applies the documents of a manifest, as `kubectl apply` does at many times the cost; the server must accept all.
    pub(crate) fn apply(&self, manifest: &str) {
        let documents: Vec<_> =
            podium::manifest::parse(manifest, "manifest").into_iter().map(Result::unwrap).collect();
        self.with_client(async |client| {
            apply_documents(&client, documents, DEFAULT_NAMESPACE, Mode::Write).await.unwrap();
        });
    }

    /// Applies these objects, like [`Instance::apply`].
    pub(crate) fn apply_all(&self, objects: &[Value]) {
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
    }

    /// Waits until a pod is ready, as `kubectl wait` does at many times the cost.
    pub(crate) fn until_ready(&self, pod: &str) {
        let is_ready = |pod: Option<&Pod>| {
            let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
            conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
        };
        self.with_client(async |client| {
            let ready = await_condition(Api::<Pod>::default_namespaced(client), pod, is_ready);
            let waited = tokio::time::timeout(WAIT_TIMEOUT, ready).await;
            waited.unwrap_or_else(|_| panic!("pod {pod} does not become ready")).unwrap();
        });
    }

    /// Returns a pod.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        self.with_client(async |client| Api::<Pod>::default_namespaced(client).get(name).await.unwrap())
    }

    /// Returns a field of a pod as text, by a path such as `.status.containerStatuses[0].ready`; empty if it is missing.
    pub(crate) fn field(&self, pod: &str, path: &str) -> String {
        self.fields(pod, &[path])
    }

    /// Returns several fields of a pod, separated by spaces.
    pub(crate) fn fields(&self, pod: &str, paths: &[&str]) -> String {
        let pod = serde_json::to_value(self.pod(pod)).unwrap();
        let field = |path: &&str| match pod.pointer(&path.replace(['.', '['], "/").replace(']', "")) {
            Some(Value::String(text)) => text.clone(),
            value => value.map(Value::to_string).unwrap_or_default(),
        };
        paths.iter().map(field).collect::<Vec<_>>().join(" ")
    }

    /// Returns the phase of a pod.
    pub(crate) fn phase(&self, pod: &str) -> String {
        self.field(pod, ".status.phase")
    }

    /// Reads a container's log, as `kubectl logs` does at many times the cost.
    pub(crate) fn read_log(&self, pod: &str, params: &LogParams) -> kube::Result<String> {
        self.with_client(async |client| Api::<Pod>::default_namespaced(client).logs(pod, params).await)
    }

    /// Returns the log of a pod's only container.
    pub(crate) fn logs(&self, pod: &str) -> String {
        self.read_log(pod, &LogParams::default()).unwrap()
    }

    /// Returns a container's log; `None` if it cannot be read, because the container has not started for example.
    pub(crate) fn logs_of(&self, pod: &str, container: &str) -> Option<String> {
        self.read_log(pod, &LogParams { container: Some(container.into()), ..LogParams::default() }).ok()
    }

    /// Runs a command in a pod, as `kubectl exec` does at many times the cost, and returns its output and its errors; if
    /// it does not start, why.
    pub(crate) fn exec(&self, pod: &str, command: &[&str]) -> String {
        self.exec_with(pod, &AttachParams::default(), command).trim().to_owned()
    }

    /// Like [`Instance::exec`], in this container, and with the white space around the output.
    pub(crate) fn exec_in(&self, pod: &str, container: &str, command: &[&str]) -> String {
        self.exec_with(pod, &AttachParams::default().container(container), command)
    }

    fn exec_with(&self, pod: &str, params: &AttachParams, command: &[&str]) -> String {
        self.with_client(async |client| {
            let pods: Api<Pod> = Api::default_namespaced(client);
            let mut process = match pods.exec(pod, command.iter().copied(), params).await {
                Ok(process) => process,
                Err(error) => return error.to_string(),
            };
            let (mut stdout, mut stderr) = (process.stdout().unwrap(), process.stderr().unwrap());
            let (mut output, mut errors) = (Vec::new(), Vec::new());
            let read = tokio::join!(stdout.read_to_end(&mut output), stderr.read_to_end(&mut errors));
            drop(read);
            [output, errors].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
        })
    }

    /// Runs kubectl, and returns its output even if it fails.
    pub(crate) fn kubectl_output(&self, arguments: &[&str]) -> Output {
        self.kubectl_of(Path::new("kubectl"), arguments)
    }

    /// Runs a kubectl of another version, and returns its output even if it fails.
    pub(crate) fn kubectl_of(&self, program: &Path, arguments: &[&str]) -> Output {
        kubectl_by(program, &self.kubeconfig)
            .args(arguments)
            .env("GOGC", "off") // its garbage collector takes a fifth of its short life
            .output()
            .expect("kubectl is on the PATH; a test that needs it begins with `needs!(Kubectl)`")
    }

    /// Returns a kubectl of this cluster, for a process that a test follows.
    pub(crate) fn kubectl_command(&self) -> Command {
        kubectl_by(Path::new("kubectl"), &self.kubeconfig)
    }
}

/// A kubectl with a kubeconfig, and with a cache of its own beside it.
pub(crate) fn kubectl_by(program: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(kubeconfig.with_extension("cache"));
    command.stdin(Stdio::null());
    command
}

/// A number of seconds that no other process on the machine sleeps: each call gives another, so that concurrent tests
/// never count each other's processes.
pub(crate) fn seconds_of_its_own() -> u32 {
    static NEXT_SECONDS: AtomicU32 = AtomicU32::new(0);
    let given = NEXT_SECONDS.fetch_add(1, Ordering::Relaxed);
    assert!(given < 1000, "the next process' numbers begin there");
    10_000_000 + std::process::id() % 100_000 * 1000 + given
}
