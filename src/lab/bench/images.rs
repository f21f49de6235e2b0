//! Images of a registry (PERF-8): the pull rate beside `skopeo copy`, memory while pulling, a pod whose image is
//! there, and the disk that pods of one image share.
//!
//! The image is made of this machine's files, so that it compresses as images do, and served by Debian's
//! docker-registry on loopback.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::hex::hex;
use images::store::Platform;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::instance::Instance;
use super::report::Report;

/// Size of the image's files.
const IMAGE_BYTES: u64 = 100 << 20;
const LAYERS: u64 = 4;
/// Number of rounds, in which both programs alternate; the medians are reported.
const ROUNDS: usize = 5;
/// Number of pods that share the image.
const PODS: usize = 10;
/// Maximum time for a pod to become Ready, which includes the pull.
const POD_TIMEOUT: Duration = Duration::from_mins(2);
/// Interval of the samples of memory during a pull.
const SAMPLE: Duration = Duration::from_millis(5);
/// Limits: additional memory of the control plane during a pull, the time of a pod whose image is there, and the disk of
/// ten pods beside that of one.
const GOAL_PULL_MIB: f64 = 20.0;
const GOAL_POD_SECONDS: f64 = 0.15;
const GOAL_DISK: f64 = 1.05;

/// A directory of the bench on the disk that is measured; removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn create() -> Result<Self> {
        let name = format!("podium-bench-images-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running docker-registry; it ends with the bench.
struct Registry {
    child: Child,
    address: String,
}

impl Registry {
    async fn start(directory: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let config = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": directory.join("registry")}},
            "http": {"addr": address},
        });
        let path = directory.join("registry.yml");
        fs::write(&path, config.to_string())?;
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self { child: command.spawn().context("docker-registry")?, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while tokio::net::TcpStream::connect(&registry.address).await.is_err() {
            ensure!(Instant::now() < deadline, "docker-registry does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(registry)
    }

    fn image(&self) -> String {
        format!("{}/bench:1", self.address)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures an image of 100 MiB in four layers.
pub(super) async fn run() -> Result<()> {
    for program in ["docker-registry", "skopeo"] {
        if Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_err()
        {
            podium::cli::output::eprint_line(&format!("images are not measured: {program} is not installed"));
            return Ok(());
        }
    }
    let directory = Directory::create()?;
    let registry = Registry::start(&directory.0).await?;
    let archive = directory.0.join("image.tar");
    write_archive(&archive)?;
    let image = registry.image();
    finish(
        skopeo()
            .arg(format!("docker-archive:{}", archive.display()))
            .args(["--dest-tls-verify=false", &format!("docker://{image}")]),
    )?;
    fs::remove_file(&archive)?;
    pull_rate(&directory.0, &image)?;
    pods(&image).await
}

fn skopeo() -> Command {
    let mut command = Command::new("skopeo");
    command.arg("copy").arg("--quiet");
    command
}

/// Runs a command to its end and returns the time that it takes, in seconds.
fn finish(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}");
    Ok(start.elapsed().as_secs_f64())
}

/// Measures pulls into new directories: by Podium and by skopeo into a containers-storage, which both unpack the layers,
/// and by skopeo into an OCI layout, which has them as the registry does. The directories stay until the end: ext4
/// creates files slowly for half a minute after many were deleted.
fn pull_rate(directory: &Path, image: &str) -> Result<()> {
    let (mut own, mut unpacking, mut copying) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for round in 0..ROUNDS {
        let layout = directory.join(format!("layout-{round}"));
        let storage = directory.join(format!("storage-{round}"));
        let source = format!("docker://{image}");
        let copy = |to: &str| finish(skopeo().arg("--src-tls-verify=false").arg(&source).arg(to));
        copying.push(copy(&format!("oci:{}", layout.display()))?);
        // Without the option, a mount would remain.
        let place = storage.display();
        let storage = format!("[overlay@{place}/root+{place}/run:overlay.skip_mount_home=true]bench:1");
        unpacking.push(copy(&format!("containers-storage:{storage}"))?);
        bytes = size_on_disk(&layout.join("blobs"))?;
        let data = directory.join(format!("data-{round}"));
        let mut pull = Command::new(crate::podium_program()?);
        own.push(finish(pull.args(["image", "pull", image, "--data-dir"]).arg(&data))?);
    }
    let megabytes = bytes as f64 / 1e6;
    let own = megabytes / median(&mut own);
    for (peer, seconds) in [("skopeo, unpacked", &mut unpacking), ("skopeo, as it is", &mut copying)] {
        let rate = megabytes / median(seconds);
        Report::against_limit("pull of an image, compressed", "MB/s", own, peer, rate);
    }
    Ok(())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// Measures pods of the image: the first pulls it, the others find it.
async fn pods(image: &str) -> Result<()> {
    let instance = Instance::start(&["--nodes", "1"]).await?;
    let api: Api<Pod> = Api::default_namespaced(instance.client().await?);
    let idle = instance.own_mib()?;
    let mut peak = idle;
    let mut first = std::pin::pin!(time_to_ready(&api, image, 0));
    loop {
        tokio::select! {
            made = &mut first => { made?; break }
            () = tokio::time::sleep(SAMPLE) => peak = instance.own_mib()?.max(peak),
        }
    }
    Report::against_limit(
        "memory of the control plane for a pull",
        "MiB",
        peak - idle,
        "goal",
        GOAL_PULL_MIB,
    );
    let one = size_on_disk(instance.directory())?;
    let mut seconds = Vec::new();
    for number in 1..PODS {
        seconds.push(time_to_ready(&api, image, number).await?);
    }
    Report::against_limit(
        "a pod whose image is there, Ready",
        "s",
        median(&mut seconds),
        "goal",
        GOAL_POD_SECONDS,
    );
    let ratio = size_on_disk(instance.directory())? as f64 / one as f64;
    Report::against_limit("disk of ten pods beside one", "x", ratio, "goal", GOAL_DISK);
    for number in 0..PODS {
        api.delete(&format!("image-{number}"), &DeleteParams::default()).await?;
    }
    instance.stop().await
}

/// Creates a pod of the image and returns the time until it is Ready, in seconds.
async fn time_to_ready(api: &Api<Pod>, image: &str, number: usize) -> Result<f64> {
    let name = format!("image-{number}");
    let pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": image, "imagePullPolicy": "IfNotPresent"}]}}))?;
    let start = Instant::now();
    api.create(&PostParams::default(), &pod).await?;
    let is_ready = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
    };
    let ready =
        tokio::time::timeout(POD_TIMEOUT, Box::pin(await_condition(api.clone(), &name, is_ready))).await;
    if !matches!(ready, Ok(Ok(_))) {
        let status = api.get_status(&name).await?.status;
        anyhow::bail!("pod {name} does not become Ready: {}", serde_json::to_string(&status)?);
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the bytes that the files below a directory occupy.
fn size_on_disk(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // A file that a running instance has just removed counts as nothing.
        let Ok(about) = entry.metadata() else { continue };
        bytes += if about.is_dir() { size_on_disk(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}

/// Writes an archive as `docker save` does: an image that sleeps, and other files of this machine.
fn write_archive(path: &Path) -> Result<()> {
    let mut archive = tar::Builder::new(fs::File::create(path)?);
    let mut candidates = library_files(Path::new("/usr/lib"))?.into_iter();
    let mut names = Vec::new();
    let mut digests = Vec::new();
    for number in 0..LAYERS {
        let mut layer = tar::Builder::new(Vec::new());
        if number == 0 {
            add_program(&mut layer)?;
        }
        let mut bytes = 0;
        while bytes < IMAGE_BYTES / LAYERS {
            let file = candidates.next().context("the files of /usr/lib are too few")?;
            let content = fs::read(&file)?;
            bytes += content.len() as u64;
            append(&mut layer, &format!("files{}", file.display()), 0o644, &content)?;
        }
        let content = layer.into_inner()?;
        let name = format!("{number}.tar");
        append(&mut archive, &name, 0o644, &content)?;
        digests.push(format!("sha256:{}", hex(Sha256::digest(&content))));
        names.push(name);
    }
    let config = json!({
        "architecture": Platform::machine().architecture, "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "3600"]},
        "rootfs": {"type": "layers", "diff_ids": digests},
    });
    append(&mut archive, "config.json", 0o644, config.to_string().as_bytes())?;
    let manifest = json!([{"Config": "config.json", "RepoTags": ["bench:1"], "Layers": names}]);
    append(&mut archive, "manifest.json", 0o644, manifest.to_string().as_bytes())?;
    archive.into_inner()?.flush()?;
    Ok(())
}

/// Adds the program `sleep` with its libraries, at the same paths.
fn add_program(layer: &mut tar::Builder<Vec<u8>>) -> Result<()> {
    const PROGRAM: &str = "/bin/sleep";
    append(layer, PROGRAM, 0o755, &fs::read(PROGRAM)?)?;
    let output = Command::new("ldd").arg(PROGRAM).output().context("ldd")?;
    let text = String::from_utf8(output.stdout)?;
    let libraries: BTreeSet<&str> = text.split_whitespace().filter(|word| word.starts_with('/')).collect();
    for library in libraries {
        append(layer, library, 0o755, &fs::read(library)?)?;
    }
    Ok(())
}

/// Returns the ordinary files below a directory, in the order of their paths.
fn library_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    let mut files = Vec::new();
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files.append(&mut library_files(&entry.path())?);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

fn append<W: Write>(archive: &mut tar::Builder<W>, path: &str, mode: u32, content: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, path.trim_start_matches('/'), content)?;
    Ok(())
}
