//! `podium dev` with the real binary: builds by a command, rollouts of changed files, failures that change nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::images::Layer;
use crate::instance::{ChildGuard, DataDir, kubectl_by, wait_for};
use crate::needs::{Need, lacks, needs, on_path};
use crate::subordinate_ids::{OrdinaryUser, USER, lacks_uidmap};

/// The build: the source is the program, unless it has a mistake.
const BUILD: &str = r#"#!/bin/sh
echo "compiling $(grep -c . main.sh) lines"
if grep -q MISTAKE main.sh; then echo "main.sh: a MISTAKE" >&2; exit 3; fi
cp main.sh "$PODIUM_OUTPUT"
"#;

/// A project: manifests in `k8s`, and the sources of the image `app` in `app`.
struct Project {
    home: DataDir,
}

impl Project {
    fn new() -> Self {
        let project = Self { home: DataDir::new() };
        fs::create_dir(project.path("k8s")).unwrap();
        fs::create_dir(project.path("app")).unwrap();
        fs::write(project.path("app/build"), BUILD).unwrap();
        fs::set_permissions(project.path("app/build"), fs::Permissions::from_mode(0o755)).unwrap();
        project.source("one");
        project.manifest("web", &deployment("web"));
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path(name)
    }

    /// Writes the program as editors do, by a rename.
    fn source(&self, version: &str) {
        let text = format!("#!/bin/sh\necho \"this is {version}\"\nexec sleep 1000000\n");
        fs::write(self.path("app/.main.new"), text).unwrap();
        fs::rename(self.path("app/.main.new"), self.path("app/main.sh")).unwrap();
    }

    fn manifest(&self, name: &str, object: &Value) {
        fs::write(self.path("new"), object.to_string()).unwrap();
        fs::rename(self.path("new"), self.path(&format!("k8s/{name}.yaml"))).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let build = format!("app={}", self.path("app").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.args(["dev", "--listen", "127.0.0.1:0", "--nodes", "1", "--build", &build, "-f"]);
        command.arg(self.path("k8s")).arg("--data-dir").arg(self.home.data_dir()).args(arguments);
        Run::start(&mut command, &self.home.data_dir().join("kubeconfig"))
    }
}

fn deployment(name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "app:v1"}]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}})
}

/// A running `podium dev` without a console.
struct Run {
    child: ChildGuard,
    lines: Arc<Mutex<Vec<String>>>,
    kubeconfig: PathBuf,
}

impl Run {
    fn start(command: &mut Command, kubeconfig: &Path) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = ChildGuard::spawn(command);
        let stdout = BufReader::new(child.0.stdout.take().unwrap());
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = lines.clone();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                written.lock().unwrap().push(line);
            }
        });
        Self { child, lines, kubeconfig: kubeconfig.to_path_buf() }
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// Waits for a line with this text after the first `from` lines; returns the number of lines up to it.
    fn wait_for_line(&self, from: usize, text: &str) -> usize {
        wait_for(text, || {
            let lines = self.lines.lock().unwrap();
            let found = lines.iter().skip(from).position(|line| line.contains(text));
            found.map(|at| from + at + 1)
        })
    }

    fn kubectl_output(&self, arguments: &[&str]) -> Output {
        kubectl_by(Path::new("kubectl"), &self.kubeconfig).args(arguments).output().unwrap()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_output(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn image_of(&self, deployment: &str) -> String {
        self.kubectl(&["get", "deployment", deployment, "-o", "jsonpath={..image}"])
    }

    fn stop(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child.0), signal).unwrap();
        let status = wait_for("the end of podium dev", || self.child.0.try_wait().unwrap());
        (status.code(), self.text())
    }
}

/// DEV-1, DEV-2, DEV-3, DEV-4, DEV-5: a changed file rolls, a failed build and a broken manifest change nothing, undo
/// works, removed objects are deleted, and the end deletes what the run created.
#[test]
fn changed_files_roll_and_failed_builds_change_nothing_dev_2_dev_3_dev_4() {
    needs!(Kubectl);
    let project = Project::new();
    let run = project.run(&["--keep"]);
    let at = run.wait_for_line(0, "this is one");
    assert!(run.text().contains("app/build compiling 3 lines"), "{}", run.text());
    let first = run.image_of("web");
    assert!(first.starts_with("app:dev-"), "{first}");

    project.source("two");
    let at = run.wait_for_line(at, "this is two");
    let second = run.image_of("web");
    assert_ne!(first, second);

    project.source("a MISTAKE");
    let at = run.wait_for_line(at, "app: the build failed");
    let text = run.text();
    assert!(text.contains("main.sh: a MISTAKE") && text.contains("exit status: 3"), "{text}");
    assert!(text.contains(&format!("nothing is changed, workloads stay at {second}")), "{text}");
    assert_eq!(run.image_of("web"), second);
    wait_for("the event of the failed build", || {
        let events = run.kubectl(&["get", "events", "--field-selector", "reason=BuildFailed"]);
        events.contains("deployment/web").then_some(())
    });

    fs::write(project.path("k8s/web.yaml"), "kind: [\n").unwrap();
    let at = run.wait_for_line(at, "manifests: nothing is changed");
    assert_eq!(run.image_of("web"), second);
    let mut changed = deployment("web");
    changed["metadata"]["labels"] = json!({"changed": "yes"});
    project.manifest("web", &changed);
    project.manifest("other", &deployment("other"));
    let at = run.wait_for_line(at, "deployment.apps/other created");
    let label = run.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.metadata.labels.changed}"]);
    assert_eq!(label, "yes");

    // The next success ends the failure, and the previous version is still there.
    project.source("three");
    let at = run.wait_for_line(at, "this is three");
    run.kubectl(&["rollout", "undo", "deployment/web"]);
    let at = run.wait_for_line(at, "this is two");
    assert_eq!(run.image_of("web"), second);

    fs::remove_file(project.path("k8s/other.yaml")).unwrap();
    run.wait_for_line(at, "deployment.apps/other deleted");
    let (code, text) = run.stop(Signal::TERM);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("deployment.apps/web deleted"), "--keep leaves the objects: {text}");
}

/// DEV-3, DEV-7: a run in a cluster that runs already; another run of the same project is refused; a killed run's
/// objects are deleted at the end of the next one, and others stay.
#[test]
fn a_killed_run_is_continued_and_cleaned_up_by_the_next_dev_3_dev_7() {
    needs!(Kubectl);
    let project = Project::new();
    let instance = project.home.start(&["--nodes", "1"]);
    let before =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "before"}, "data": {"a": "b"}});
    project.manifest("before", &before);
    let file = project.path("k8s/before.yaml");
    instance.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    project.manifest("data", &claim);

    let run = project.run(&[]);
    run.wait_for_line(0, "this is one");
    assert!(run.text().contains("using the cluster that runs in"), "{}", run.text());
    let second = project.run(&[]);
    let (code, _) = {
        let mut second = second;
        let status = wait_for("the refusal", || second.child.0.try_wait().unwrap());
        (status.code(), second.text())
    };
    assert_eq!(code, Some(1), "two runs of one project");
    let image = run.image_of("web");
    let (code, _) = run.stop(Signal::KILL);
    assert_eq!(code, None);
    assert!(instance.kubectl(&["get", "deployment", "web"]).contains("web"));

    let run = project.run(&[]);
    run.wait_for_line(0, "applied; watching");
    assert_eq!(run.image_of("web"), image, "the same sources are the same version in every run");
    let (code, text) = run.stop(Signal::INT);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("deployment.apps/web deleted"), "{text}");
    assert!(text.contains("persistentvolumeclaim/data stays"), "{text}");
    let left = instance.kubectl(&["get", "deployments,configmaps,pvc", "-o", "name"]);
    assert!(!left.contains("deployment.apps/web"), "{left}");
    assert!(left.contains("configmap/before") && left.contains("persistentvolumeclaim/data"), "{left}");
    instance.stop();
    let mut delete = Command::new(env!("CARGO_BIN_EXE_podium"));
    delete.args(["stop", "--delete-data", "--data-dir"]).arg(project.home.data_dir());
    assert!(delete.output().unwrap().status.success());
    // The directory itself has kubectl's cache.
    for name in ["dev", "images"] {
        assert!(!project.home.data_dir().join(name).exists(), "{name} is left");
    }
}

/// DEV-4: the end of a run ends a build that hangs, with all of its processes.
#[test]
fn the_end_of_a_run_ends_a_build_that_hangs_dev_4() {
    let project = Project::new();
    let seconds = crate::instance::seconds_of_its_own();
    let hanging = format!(
        "#!/bin/sh\ntrap '' TERM\necho half > $PODIUM_OUTPUT\nsleep {seconds} &\necho hanging\nwait\nsleep {seconds}\n"
    );
    fs::write(project.path("app/build"), hanging).unwrap();
    let run = project.run(&[]);
    run.wait_for_line(0, "hanging");
    let (code, text) = run.stop(Signal::INT);
    assert_eq!(code, Some(0), "{text}");
    assert!(!project.home.data_dir().join("dev/app.work").exists(), "what the build has written is left");
    let is_there = fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let command = podium::base::optional_file::read_optional_bytes(entry.path().join("cmdline"));
        command == format!("sleep\0{seconds}\0").as_bytes()
    });
    assert!(!is_there, "a process of the build is left");
}

/// DEV-3, DEV-8: what the cluster refuses is applied once it accepts it, without a change of files; the run
/// reports that workloads are ready, or why not, and the addresses of Services.
#[test]
fn refused_manifests_are_tried_again_and_workloads_are_followed_dev_3_dev_8() {
    needs!(Kubectl);
    let project = Project::new();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    project.manifest("service", &service);
    let later =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "later"}});
    project.manifest("later", &later);
    let run = project.run(&[]);
    let at = run.wait_for_line(0, "what failed is tried again");
    run.wait_for_line(0, "ready: deployment.apps/web (1 pod)");
    run.kubectl(&["create", "namespace", "later"]);
    let at = run.wait_for_line(at, "applied; watching");
    assert!(run.kubectl(&["get", "configmap", "-n", "later", "-o", "name"]).contains("configmap/c"));
    let text = run.text();
    assert_eq!(text.matches("what failed is tried again").count(), 1, "reported once: {text}");
    let mut address = Command::new(env!("CARGO_BIN_EXE_podium"));
    let address = address.args(["address", "svc/web", "--data-dir"]).arg(project.home.data_dir()).output();
    let address = String::from_utf8_lossy(&address.unwrap().stdout).into_owned();
    if let Some(address) = address.split_whitespace().find(|word| word.starts_with("127.")) {
        assert!(text.contains(&format!("service/web: 80/TCP at {address}")), "{text}");
    }

    let mut unschedulable = deployment("web");
    unschedulable["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "such"});
    project.manifest("web", &unschedulable);
    let at = run.wait_for_line(at, "deployment.apps/web is not ready (0 of 1): pod web-");
    assert!(run.text().contains(": Unschedulable: "), "{}", run.text());
    project.manifest("web", &deployment("web"));
    run.wait_for_line(at, "ready: deployment.apps/web (1 pod)");
    let (code, text) = run.stop(Signal::INT);
    assert_eq!(code, Some(0), "{text}");
}

/// Writes a project whose image buildah builds of a layer: `RUN` is root, and gives files to another user.
fn containerfile_project(home: &DataDir) {
    fs::create_dir(home.path("k8s")).unwrap();
    fs::create_dir(home.path("app")).unwrap();
    fs::write(home.path("k8s/web.yaml"), deployment("web").to_string()).unwrap();
    let mut layer = Layer::new();
    for program in ["sh", "chown", "id", "sleep", "stat"] {
        layer.program(program);
    }
    fs::write(home.path("app/base.tar"), layer.finish()).unwrap();
    containerfile(home, "id -u && echo built > /built && chown 999:999 /built");
    // One store for each test; overlays need mounts.
    let store = format!(
        "[storage]\ndriver = \"overlay\"\ngraphroot = \"{graph}\"\nrunroot = \"{run}\"\n\
         rootless_storage_path = \"{graph}\"\n",
        graph = home.path("graph").display(),
        run = home.path("run").display(),
    );
    fs::write(home.path("storage.conf"), store).unwrap();
    fs::create_dir(home.path("runtime")).unwrap();
}

fn containerfile(home: &DataDir, command: &str) {
    let start = r#"ENTRYPOINT ["/bin/sh", "-c", "stat -c 'owned by %u' /built; exec sleep 1000000"]"#;
    let run = json!(["/bin/sh", "-c", command]);
    let text = format!("FROM scratch\nADD base.tar /\nENV PATH=/bin\nRUN {run}\n{start}\n");
    fs::write(home.path("app/Containerfile"), text).unwrap();
}

fn check_containerfile(home: &DataDir, mut command: Command) {
    command.args(["--listen", "127.0.0.1:0", "--nodes", "1", "-f"]).arg(home.path("k8s"));
    command.arg("--build").arg(format!("app={}", home.path("app").display()));
    command.env("CONTAINERS_STORAGE_CONF", home.path("storage.conf"));
    command.env("XDG_RUNTIME_DIR", home.path("runtime"));
    let run = Run::start(&mut command, &home.data_dir().join("kubeconfig"));
    let at = run.wait_for_line(0, "owned by 999");
    assert!(run.text().contains("app/build 0"), "RUN is root: {}", run.text());
    let first = run.image_of("web");
    containerfile(home, "exit 7");
    let at = run.wait_for_line(at, "app: the build failed");
    assert_eq!(run.image_of("web"), first);
    containerfile(home, "echo again > /built && chown 998:998 /built");
    run.wait_for_line(at, "owned by 998");
    let (code, text) = run.stop(Signal::TERM);
    assert_eq!(code, Some(0), "{text}");
    // A container of a failed build is a whole copy of its image.
    let containers = home.path("graph/overlay-containers/containers.json");
    let left = podium::base::optional_file::read_optional(containers);
    assert!(left.is_empty() || left.trim() == "[]", "{left}");
}

/// DEV-1, IMG-12: buildah builds a Containerfile as root, and as an ordinary user with subordinate ids.
#[test]
fn a_containerfile_is_built_as_root_and_as_an_ordinary_user_dev_1_img_12() {
    needs!(Kubectl);
    needs!(Root);
    if lacks(Need::Buildah, on_path("buildah")) {
        return;
    }
    let home = DataDir::new();
    containerfile_project(&home);
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.arg("dev").arg("--data-dir").arg(home.data_dir());
    check_containerfile(&home, command);
    if lacks_uidmap() {
        return;
    }
    let user = OrdinaryUser::with_subordinate_ids();
    containerfile_project(&user.home);
    std::os::unix::fs::chown(user.home.path("runtime"), Some(USER.1), Some(USER.1)).unwrap();
    check_containerfile(&user.home, user.podium(&["dev"]));
}
