//! Volumes filled by faults (FAULT-1), with real file systems and real processes: writes fail, reads succeed, and the
//! space comes back, also after crashes.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs};

/// A temporary file system of 24 MiB, unmounted at the end.
pub(crate) struct FileSystem {
    point: PathBuf,
}

impl FileSystem {
    /// Mounts an ext4 in a file, or one in memory if ext4 cannot be created or mounted; `None` if the machine forbids
    /// mounts.
    fn mount(home: &DataDir) -> Option<Self> {
        Self::mount_at(home, &home.path("volume"))
    }

    /// [`Self::mount`] at this path.
    pub(crate) fn mount_at(home: &DataDir, point: &Path) -> Option<Self> {
        let (point, image) = (point.to_path_buf(), home.path("volume.img"));
        std::fs::create_dir_all(&point).unwrap();
        std::fs::File::create(&image).unwrap().set_len(24 << 20).unwrap();
        let on_disk = runs("mkfs.ext4", &["-q", "-F"], &image)
            && runs("mount", &["-o", "loop", image.to_str().unwrap()], &point);
        let there = on_disk || runs("mount", &["-t", "tmpfs", "-o", "size=24m", "full-volume"], &point);
        there.then_some(Self { point })
    }
}

impl Drop for FileSystem {
    /// Never panics: the test may be unwinding.
    fn drop(&mut self) {
        runs("umount", &["--lazy"], &self.point);
    }
}

fn runs(program: &str, arguments: &[&str], last: &Path) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments).arg(last).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A script that has a file open in each of two volumes, and writes to it.
const HOLD: &str =
    "exec 3>>/directory/held 4>>/cache/held; while sleep 0.3 3>&- 4>&-; do echo x >&3; echo x >&4; done";

struct Lab {
    instance: Instance,
    // Dropped after the instance, which uses it.
    file_system: FileSystem,
    // Dropped last, because the file system is in it.
    home: DataDir,
    /// Number of files written.
    written: Cell<u32>,
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Lab {
    /// Starts a pod with a claim's volume at /data, which is a separate file system.
    fn start() -> Option<Self> {
        let home = DataDir::new();
        let file_system = FileSystem::mount(&home)?;
        let instance = home.start(&["--nodes", "1"]);
        let lab = Self { home, instance, file_system, written: Cell::new(0) };
        let storage = json!({"requests": {"storage": "16Mi"}});
        lab.apply(
            &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "small"}, "spec": {
            "capacity": {"storage": "16Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "hostPath": {"path": lab.file_system.point}}}),
        );
        lab.apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": storage}}));
        // A claim of the default class has a directory as its volume.
        lab.apply(
            &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "directory"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}),
        );
        let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        lab.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
            "volumes": [claim("data"), claim("directory"), {"name": "cache", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", HOLD],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "cache", "mountPath": "/cache"},
                    {"name": "directory", "mountPath": "/directory"}]}]}}));
        wait_for("the pod to run", || {
            let phase = lab.instance.phase("a");
            (phase == "Running").then_some(())
        });
        Some(lab)
    }

    fn apply(&self, object: &Value) {
        self.instance.apply(&object.to_string());
    }

    /// Kills the control plane, and starts another.
    fn restart(self) -> Self {
        let Self { home, instance, file_system, written } = self;
        instance.crash();
        Self { instance: home.start(&["--nodes", "1"]), home, file_system, written }
    }

    /// Runs `podium fault …`. Returns its success and its output.
    fn fault(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.home.fault(arguments);
        (output.status.success(), text(&output))
    }

    /// Runs a script in the pod. Returns its success and its output.
    fn pod_does(&self, script: &str) -> (bool, String) {
        let output = self.instance.kubectl_output(&["exec", "a", "--", "sh", "-c", script]);
        (output.status.success(), text(&output))
    }

    /// Returns true if a new file with content can be written.
    fn can_write(&self) -> bool {
        let number = self.written.replace(self.written.get() + 1);
        let write = format!("dd if=/dev/zero of=/data/more-{number} bs=64k count=1");
        let (went_well, output) = self.pod_does(&write);
        assert!(went_well || output.contains("No space left on device"), "{output}");
        went_well
    }

    fn says(&self, fault: &str) -> String {
        let path = "jsonpath={.status.conditions[?(@.type=='Active')].status} {.status.conditions[?(@.type=='Active')].reason}";
        self.instance.kubectl(&["get", "fault", fault, "-o", path])
    }
}

#[test]
fn a_full_volume_refuses_writes_until_healed_even_across_kills_fault_1() {
    needs!(Kubectl);
    needs!(Root);
    let lab = Lab::start();
    if lacks(Need::Mounts, lab.is_some()) {
        return;
    }
    let lab = lab.unwrap();
    let (went_well, output) =
        lab.pod_does("echo kept > /data/kept && dd if=/dev/zero of=/data/large bs=64k count=16");
    assert!(went_well, "{output}");
    let (went_well, output) = lab.fault(&["volume-full", "data", "--name", "full"]);
    let point = lab.file_system.point.display();
    assert!(went_well, "{output}");
    assert_eq!(
        output.trim(),
        format!("fault/full is in force: Full volume of claim default/data at {point}")
    );
    assert!(!lab.can_write());
    assert_eq!(lab.pod_does("cat /data/kept"), (true, "kept\n".to_owned()), "it is read as ever");
    assert_eq!(lab.pod_does("exec ls -A /data"), (true, listed(&lab)), "nothing else is there");
    wait_for("the kubelet to tell it", || {
        let stats = lab.instance.kubectl(&["get", "--raw", "/api/v1/nodes/node-1/proxy/stats/summary"]);
        let stats: Value = serde_json::from_str(&stats).unwrap();
        let volumes = stats["pods"].as_array()?.iter().filter_map(|pod| pod["volume"].as_array().cloned());
        let data = volumes.flatten().find(|volume| volume["pvcRef"]["name"] == "data")?;
        assert!(data["capacityBytes"].as_u64()? <= 24 << 20, "{data}");
        (data["availableBytes"] == 0 && data["usedBytes"].as_u64()? > 16 << 20).then_some(())
    });
    // Space that a program frees is filled, too.
    lab.pod_does("rm /data/large");
    wait_for("the freed space to be filled", || (!lab.can_write()).then_some(()));
    let (went_well, output) = lab.fault(&["volume-full", "claim/default/data", "--name", "again"]);
    assert!(!went_well && output.contains("fault full already fills the volume of "), "{output}");

    let lab = lab.restart();
    wait_for("the next control plane to fill it", || (!lab.can_write()).then_some(()));
    assert_eq!(lab.says("full"), "True InForce");
    assert_eq!(lab.says("again"), "False AlreadyFull");
    let (went_well, output) = lab.fault(&["heal", "again"]);
    assert!(went_well, "{output}");
    let (went_well, output) = lab.fault(&["volume-full", "data", "--heal"]);
    assert!(went_well && output.contains("fault/full healed"), "{output}");
    wait_for("the room to be back", || lab.can_write().then_some(()));

    let (went_well, output) =
        lab.fault(&["volume-full", "default/data", "--duration", "3s", "--name", "short"]);
    assert!(went_well && !lab.can_write(), "{output}");
    wait_for("its end", || lab.can_write().then_some(()));
    wait_for("its end to be said", || (lab.says("short") == "False Expired").then_some(()));

    // The space is freed also when the control plane is killed and none follows.
    assert!(lab.fault(&["volume-full", "data"]).0);
    let before = rustix::fs::statvfs(&lab.file_system.point).unwrap().f_bavail;
    assert_eq!(before, 0);
    let Lab { instance, file_system, home, .. } = lab;
    instance.crash();
    wait_for("the room", || (rustix::fs::statvfs(&file_system.point).unwrap().f_bavail > 0).then_some(()));
    drop((file_system, home));
}

/// A directory of this machine is not filled: writers get the error of a full disk.
#[test]
fn a_claims_directory_and_an_empty_dir_take_no_writes_until_healed_and_lose_nothing_fault_1() {
    needs!(Kubectl);
    needs!(Root);
    let lab = Lab::start();
    if lacks(Need::Mounts, lab.is_some()) {
        return;
    }
    let mut lab = lab.unwrap();
    let free = || rustix::fs::statvfs("/var/tmp").unwrap().f_bavail;
    let before = free();
    for (target, at) in [("directory", "/directory"), ("emptydir/a/cache", "/cache")] {
        let write = format!("echo more | dd of={at}/kept oflag=append conv=notrunc");
        let new = format!("dd if=/dev/zero of={at}/new bs=4k count=1");
        assert!(lab.pod_does(&format!("echo kept > {at}/kept; mkdir -p {at}/deep")).0);
        let (went_well, output) = lab.fault(&["volume-full", target, "--name", "full"]);
        let refusal = "Podium cannot refuse writes there either";
        if lacks(Need::Gates, went_well) {
            assert!(
                output.contains(refusal) && output.contains("create a PersistentVolume with its path"),
                "{output}"
            );
            return;
        }
        assert!(output.contains("opened before can still write"), "{output}");
        let takes = |script: &str| {
            let (went_well, output) = lab.pod_does(script);
            assert!(went_well || output.contains("No space left on device"), "{script}: {output}");
            went_well
        };
        assert!(
            !takes(&write) && !takes(&new) && !takes(&format!("echo x | dd of={at}/deep/new")),
            "{target}"
        );
        assert_eq!(
            lab.pod_does(&format!("cat {at}/kept")),
            (true, "kept\n".to_owned()),
            "it is read as ever"
        );
        assert!(
            takes(&format!("printf KEPT | dd of={at}/kept conv=notrunc")),
            "existing data can be overwritten"
        );
        assert!(takes(&format!("rm {at}/new")), "and deleted");
        // Files created meanwhile are covered by the next pass.
        assert!(takes(&format!("mkdir {at}/later")));
        wait_for("the new directory", || (!takes(&format!("echo x | dd of={at}/later/new"))).then_some(()));
        // Another control plane does the same.
        lab = lab.restart();
        let full = || {
            let (went_well, output) = lab.pod_does(&write);
            (!went_well && output.contains("No space left on device")).then_some(())
        };
        wait_for("the next control plane", full);
        assert!(lab.fault(&["heal", "full"]).0);
        wait_for("the room", || lab.pod_does(&write).0.then_some(()));
        let (went_well, output) = lab.pod_does(&format!("cat {at}/kept && test -s {at}/held"));
        assert!(went_well, "the file that was open was written: {output}");
        assert_eq!(output, "KEPT\nmore\n");
    }
    assert!(free() > before / 2, "the machine's own disk is left alone");
    // The end of the control plane, even by SIGKILL, frees the space.
    assert!(lab.fault(&["volume-full", "emptydir/default/a/cache"]).0);
    let at = lab.home.data_dir().join("nodes/node-1/pods");
    let pods: Vec<_> = std::fs::read_dir(at).unwrap().flatten().collect();
    let cache = pods.iter().map(|pod| pod.path().join("volumes/cache")).find(|path| path.is_dir()).unwrap();
    assert!(std::fs::write(cache.join("outside"), "x").is_err());
    let Lab { instance, file_system, home, .. } = lab;
    instance.crash();
    wait_for("the room to be free without a control plane", || {
        std::fs::write(cache.join("outside"), "x").ok()
    });
    drop((file_system, home));
}

/// Lists the files of the pod, and those that a file system of this kind always has.
fn listed(lab: &Lab) -> String {
    let own = if lab.file_system.point.join("lost+found").is_dir() { "lost+found\n" } else { "" };
    format!("kept\nlarge\n{own}more-0\n")
}

#[test]
fn a_scenario_fills_a_volume_and_what_is_not_there_is_refused_fault_1_fault_2() {
    needs!(Kubectl);
    needs!(Root);
    let lab = Lab::start();
    if lacks(Need::Mounts, lab.is_some()) {
        return;
    }
    let lab = lab.unwrap();
    for (claim, says) in [
        ("none", "claim default/none not found"),
        ("emptydir/a/none", "pod default/a has no volume none"),
        ("emptydir/a/data", "is not an emptyDir"),
        ("other/data", "claim other/data not found"),
    ] {
        let (went_well, output) = lab.fault(&["volume-full", claim]);
        assert!(!went_well && output.contains(says), "{claim}: {output}");
    }
    assert!(lab.fault(&["heal", "--all"]).0);
    // An unmounted file system is a plain directory.
    let (file_system, writes) = (&lab.file_system, lab.can_write());
    assert!(writes && file_system.point.join("more-0").exists(), "the pod has the file system itself");

    let of_fault = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "Fault", "name": "full-disk-full"});
    lab.apply(&json!({"apiVersion": "podium.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "full-disk"}, "spec": {
        "title": "Full", "briefing": "A volume is full for a while.", "timeLimit": "2m",
        "steps": [{"at": "0s", "fault": {"name": "full", "spec": {"type": "VolumeFull", "target": {"claim": "data"}}}},
            {"at": "8s", "heal": "full"}],
        "check": [
            {"name": "is-full", "kind": "Trouble", "object": of_fault,
                "holds": "object.status.conditions.exists(c, c.type == 'Active' && c.status == 'True')"},
            {"name": "is-healed", "kind": "Repair", "object": of_fault, "holds": "object == null"}],
        "verdict": {"passed": "Good.", "failed": "Bad."}}}));
    wait_for("the scenario's fault", || (!lab.can_write()).then_some(()));
    wait_for("its end", || {
        let phase = lab.instance.kubectl(&["get", "scenario", "full-disk", "-o", "jsonpath={.status.phase}"]);
        assert_ne!(phase, "Failed");
        (phase == "Passed").then_some(())
    });
    wait_for("the room to be back", || lab.can_write().then_some(()));
}
