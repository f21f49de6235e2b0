//! The view from inside a container: its machine, its network, its built-in image.

use std::path::Path;
use std::time::Duration;

use podium::kubelet::runtime::{ContainerSpec, HostShares, Mount, Runtime, RuntimeError, SandboxSpec};

use super::node::{DECLARED, Node, modes, sandbox, shell, soon, words};
use crate::needs::{Need, lacks, needs};

/// NET-4, POD-14: own host name, own processes, volumes at their mount path, and the machine is unchanged.
#[tokio::test]
async fn a_pod_sees_its_own_machine() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let volume = node.directory.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("key"), "value").unwrap();
    let mount = |path: &str, read_only| Mount {
        host_path: volume.clone(),
        container_path: path.into(),
        read_only,
        ..Mount::default()
    };
    let script = "hostname; echo pids $(ls /proc | grep -c '^[0-9]'); cat /data/a/b/key /usr/share/podium-x/key; echo; \
                  touch /data/a/b/new; touch /usr/share/podium-x/no || echo readonly; \
                  echo bye > /dev/termination-log; touch /tmp/here /here; pwd; ls /dev/shm >/dev/null && echo fine";
    let mut spec = shell("main", script);
    spec.mounts = vec![mount("/data/a/b", false), mount("/usr/share/podium-x", true)];
    let record = node.start(spec).await;
    let exit = node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    for text in ["F web-1\n", "F valuevalue\n", "F readonly\n", "F /\n", "F fine\n"] {
        assert!(log.contains(text), "{text} in {log}");
    }
    assert_eq!(exit.message.as_deref(), Some("bye\n"));
    assert!(volume.join("new").exists());
    assert!(!Path::new("/usr/share/podium-x").exists() && !Path::new("/here").exists());
    node.shutdown().await;
}

/// POD-14, POD-16: the resources that a pod's containers share, and those that each has alone.
#[tokio::test]
async fn a_pods_containers_share_memory_and_nothing_else() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    node.sh("echo shared > /dev/shm/word; echo mine > /tmp/word; echo mine > /word; sleep 1000").await;
    let script = "until cat /dev/shm/word; do sleep 0.01; done 2>/dev/null; ls /tmp/word /word; \
                  echo $(tr '\\0' ' ' < /proc/1/cmdline); echo null > /dev/null; ls -l /dev/null; stat -c %a /tmp";
    let second = node.start(shell("second", script)).await;
    node.exit(&second.id).await;
    let log = node.log(&second.id).await;
    for text in ["F shared\n", "F pause\n", "crw-rw-rw-", "F 1777\n"] {
        assert!(log.contains(text), "{text} in {log}");
    }
    assert!(!log.contains("F /word") && !log.contains("F /tmp/word"), "{log}");
    node.shutdown().await;
}

/// NET-3: running containers see a rewritten hosts file.
#[tokio::test]
async fn running_containers_see_their_new_hosts_file() {
    let node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let spec = SandboxSpec { hosts: Some("127.0.0.1 one-name\n".to_owned()), ..sandbox("named") };
    node.runtime.run_sandbox(spec).await.unwrap();
    let script = "cat /etc/hosts; until grep two-name /etc/hosts; do sleep 0.01; done; sleep 1000";
    let spec = ContainerSpec { pod_uid: "named".to_owned(), ..shell("main", script) };
    let record = node.start(spec).await;
    node.log_has(&record.id, "one-name").await;
    node.runtime.write_hosts(&"named".to_owned(), "127.0.0.1 two-name\n".to_owned()).await.unwrap();
    node.log_has(&record.id, "F 127.0.0.1 two-name\n").await;
    assert!(node.runtime.write_hosts(&"none".to_owned(), String::new()).await.is_err());
    node.runtime.stop_sandbox(&"named".to_owned()).await.unwrap();
    node.shutdown().await;
}

/// POD-16: readOnlyRootFilesystem leaves volumes and shared memory writable.
#[tokio::test]
async fn a_read_only_root_cannot_be_written() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let volume = node.directory.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    let script = "for f in /x /etc/x /usr/x /tmp/x /work-x/x /dev/x; do touch $f 2>/dev/null && echo wrote $f; done; \
                  touch /data/deep/in /dev/shm/in && echo fine; echo end > /dev/termination-log; pwd";
    let mut spec = shell("main", script);
    spec.security.read_only_root = true;
    spec.working_dir = Some("/app/here".into());
    spec.mounts =
        vec![Mount { host_path: volume.clone(), container_path: "/data/deep".into(), ..Mount::default() }];
    let record = node.start(spec).await;
    let exit = node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    assert!(log.contains("F fine\n") && log.contains("F /app/here\n") && !log.contains("wrote"), "{log}");
    assert_eq!((exit.exit_code, exit.message.as_deref()), (0, Some("end\n")));
    assert!(volume.join("in").exists());
    node.shutdown().await;
}

/// POD-16: the machine's /sys is read-only, with every mount in it, for root's containers and for an ordinary user's.
#[tokio::test]
async fn sys_of_the_machine_cannot_be_written_pod_16() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let script = "grep -q ' /sys ' /proc/self/mountinfo && echo found; \
                  grep -E '^[^-]* /sys(/[^ ]*)? rw[ ,]' /proc/self/mountinfo && echo writable; echo end";
    let record = node.start(shell("main", script)).await;
    node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    assert!(log.contains("F found\n") && log.contains("F end\n") && !log.contains("writable"), "{log}");
    node.shutdown().await;
}

/// POD-16: users, groups and rights, as far as the user that runs the test may grant them.
#[tokio::test]
async fn processes_have_the_user_groups_and_rights_of_their_security_context() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let root = rustix::process::geteuid().is_root();
        let mut spec =
            shell("main", "id -u; id -g; id -G; grep -E 'NoNewPrivs|CapBnd|CapEff' /proc/self/status");
        (spec.run_as_user, spec.run_as_group) = (Some(4321), Some(77));
        spec.security.groups = vec![5, 2000];
        spec.security.no_new_privileges = true;
        spec.security.non_root = true;
        spec.security.drop_capabilities = vec!["ALL".to_owned()];
        let record = node.start(spec).await;
        assert_eq!(node.exit(&record.id).await.exit_code, 0);
        let log = node.log(&record.id).await;
        assert!(log.contains("NoNewPrivs:\t1\n") && log.contains("CapEff:\t0000000000000000\n"), "{log}");
        if !lacks(Need::Root, root) {
            assert!(log.contains("CapBnd:\t0000000000000000\n"), "{log}");
            assert!(log.contains("F 4321\n") && log.contains("F 77 5 2000\n"), "{log}");
        }
        let mut refused = shell("refused", "exit 0");
        refused.run_as_user = Some(0);
        refused.security.non_root = true;
        let error = node.runtime.start_container(refused).await.unwrap_err();
        let text = "container's runAsUser breaks non-root policy";
        assert_eq!(error, RuntimeError::InvalidConfig(text.to_owned()));
        node.shutdown().await;
    }
}

/// The capabilities of a container's processes, including the commands of probes, hooks and `exec`, as the
/// conformance test "should run the container as unprivileged when false" expects (POD-16).
#[tokio::test]
async fn processes_have_the_capabilities_that_containerd_gives_them() {
    // Only root has capabilities to give.
    needs!(Root);
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapBnd:\t")).unwrap();
    let own = u64::from_str_radix(own, 16).unwrap();
    let (default, low_ports) = (0xa804_25fb & own, 0x400 & own);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let look = "grep Cap /proc/self/status";
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        for (name, add, drop, privileged, user, effective, bounding) in [
            ("default", &[][..], &[][..], false, None, default, default),
            (
                "adds",
                &["NET_ADMIN"],
                &["CHOWN"],
                false,
                None,
                (default | 0x1000 & own) & !1,
                (default | 0x1000 & own) & !1,
            ),
            ("drops", &[], &["ALL"], false, None, 0, 0),
            ("privileged", &[], &[], true, None, own, own),
            // On a node of Kubernetes, too, users other than root may bind low ports, and nothing else.
            ("user", &[], &[], false, Some(4321), low_ports, default),
            ("privileged-user", &[], &[], true, Some(4321), low_ports, own),
            ("bare-user", &[], &["ALL"], false, Some(4321), 0, 0),
        ] {
            let mut spec = shell(name, &format!("{look}; sleep 1000"));
            (spec.run_as_user, spec.run_as_group) = (user, user);
            spec.security.privileged = privileged;
            (spec.security.add_capabilities, spec.security.drop_capabilities) = (names(add), names(drop));
            let record = node.start(spec).await;
            node.log_has(&record.id, "CapAmb").await;
            let main = node.log(&record.id).await;
            let beside =
                node.runtime.exec_sync(&record.id, words(&["sh", "-c", look]), Duration::from_mins(1));
            let beside = String::from_utf8(beside.await.unwrap().output).unwrap();
            for status in [main, beside] {
                let expect = [("CapEff", effective), ("CapPrm", effective), ("CapBnd", bounding)];
                for (set, expect) in expect {
                    let line = format!("{set}:\t{expect:016x}\n");
                    assert!(status.contains(&line), "{name}, namespaces {namespaces}: no {line} in {status}");
                }
                let ambient = if user.is_some() { effective } else { 0 };
                let line = format!("CapAmb:\t{ambient:016x}\n");
                assert!(status.contains(&line), "{name}, namespaces {namespaces}: no {line} in {status}");
            }
            node.runtime.kill_container(&record.id).await.unwrap();
            node.exit(&record.id).await;
        }
        node.shutdown().await;
    }
}

/// POD-14: a pod that shares the machine's network and processes. Its host name is that of its node, and nodes share the
/// machine.
#[tokio::test]
async fn a_pod_of_the_machine_sees_the_machine() {
    let mut node = Node::new(true).await;
    let host = HostShares { pid: true, ipc: true, network: true };
    node.runtime.run_sandbox(SandboxSpec { host, ..sandbox("machine") }).await.unwrap();
    let script = format!("tr '\\0' ' ' < /proc/{}/cmdline | head -c 40; echo; hostname", std::process::id());
    let spec = ContainerSpec {
        pod_uid: "machine".to_owned(),
        ..shell("main", &format!("{script}; echo; echo done; sleep 1000"))
    };
    let record = node.start(spec).await;
    node.log_has(&record.id, "F done\n").await;
    assert!(node.log(&record.id).await.contains("F web-1\n"));
    node.runtime.kill_container(&record.id).await.unwrap();
    soon("exit", async {
        while node.runtime.inspect(&"machine".to_owned()).await.unwrap().unwrap().containers[0].exit.is_none()
        {
            node.events.recv().await.unwrap();
        }
    })
    .await;
    let own = std::fs::read("/proc/self/cmdline").unwrap();
    let own = String::from_utf8_lossy(own.split(|byte| *byte == 0).next().unwrap()).into_owned();
    let log = node.log(&record.id).await;
    assert!(log.contains(&own[..own.len().min(39)]), "{own} in {log}");
    node.shutdown().await;
}

/// IMG-1: a container of a user's image sees the machine's directories and cannot change them; it sees its own changes,
/// and so does a debugger beside it.
#[tokio::test]
async fn a_container_of_a_users_image_changes_nothing_of_the_machine() {
    let mut node = Node::new(true).await;
    // Only root could change anything, and only namespaces can prevent that.
    let root = rustix::process::geteuid().is_root();
    if lacks(Need::Namespaces, node.namespaces) || lacks(Need::Root, root) {
        return node.shutdown().await;
    }
    let name = format!("podium-test-{}", std::process::id());
    // Only this test's own files are ever in danger.
    let machines = tempfile::tempdir_in("/var").unwrap();
    std::fs::create_dir(machines.path().join("deep")).unwrap();
    std::fs::write(machines.path().join("deep/file"), "the machine's").unwrap();
    let place = machines.path().display();
    let directories = ["/etc", "/usr", "/var", "/root", "/opt", "/run"];
    let script = format!(
        "for d in {}; do mkdir -p $d; echo mine > $d/{name} && cat $d/{name}; rm $d/{name}; done; \
         echo changed > {place}/deep/file; cat {place}/deep/file; rm -rf {place}; ls {place}; \
         echo mine > /opt/{name}; echo over; sleep 1000",
        directories.join(" ")
    );
    let of_user = |spec: ContainerSpec| ContainerSpec { image: DECLARED.to_owned(), ..spec };
    let record = node.start(of_user(shell("main", &script))).await;
    node.log_has(&record.id, "F over\n").await;
    let log = node.log(&record.id).await;
    assert_eq!(log.matches("F mine\n").count(), directories.len(), "{log}");
    assert!(log.contains("F changed\n") && log.contains("No such file"), "{log}");
    assert_eq!(std::fs::read_to_string(machines.path().join("deep/file")).unwrap(), "the machine's");
    assert!(!Path::new("/opt").join(&name).exists());

    let look = format!("cat /opt/{name} $TARGET_ROOT/opt/{name}; ls -d {place}; echo over; sleep 1000");
    let debugger = ContainerSpec { target: Some("main".to_owned()), ..shell("debugger", &look) };
    let debugger = node.start(of_user(debugger)).await;
    node.log_has(&debugger.id, "F over\n").await;
    let log = node.log(&debugger.id).await;
    assert_eq!(log.matches("F mine\n").count(), 2, "{log}");
    assert!(
        log.contains("No such file"),
        "the debugger does not see the directory that the target removed: {log}"
    );
    node.runtime.kill_container(&record.id).await.unwrap();
    node.exit(&record.id).await;
    node.shutdown().await;
}

/// IMG-2: a container of a built-in image has the machine's programs and nothing else of the machine: no password, no
/// key, no home, no data. It may write everywhere; a debugger beside it sees the changes, and no other container does.
#[tokio::test]
async fn a_container_of_a_built_in_image_has_a_root_of_its_own_img_2() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let name = format!("podium-test-{}", std::process::id());
    let machines = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(machines.path().join("file"), "the machine's").unwrap();
    let directories =
        ["/etc", "/usr", "/usr/local/bin", "/usr/share", "/var/lib", "/opt", "/run", "/root", "/"];
    let script = format!(
        "cat {place}/file; ls /home /root /srv /opt /work /mnt /boot /var/lib /etc/ssh /etc/ssl/private /etc/sudoers; \
         grep -v ':[*]:' /etc/shadow; for f in /*; do echo found $f; done; \
         for d in {all}; do echo mine > $d/{name} && cat $d/{name}; done; rm /usr/bin/env && echo removed; \
         touch /tmp/{name} && echo over; sleep 1000",
        place = machines.path().display(),
        all = directories.join(" ")
    );
    let record = node.start(shell("main", &script)).await;
    node.log_has(&record.id, "F over\n").await;
    let log = node.log(&record.id).await;
    assert!(!log.contains("the machine's") && !log.contains(":$"), "{log}");
    let usual = [
        "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt",
        "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var", "work",
    ];
    for line in log.lines().filter_map(|line| line.split_once("F found /")) {
        assert!(usual.contains(&line.1), "/{} is the machine's: {log}", line.1);
    }
    assert_eq!(log.matches("F mine\n").count(), directories.len(), "{log}");
    assert!(log.contains("F removed\n"), "{log}");
    for path in ["/etc", "/usr", "/usr/local/bin", "/opt", "/tmp", "/root"] {
        assert!(!Path::new(path).join(&name).exists(), "{path}");
    }
    assert!(Path::new("/usr/bin/env").exists());

    let look = format!(
        "cat /opt/{name} /usr/{name} $TARGET_ROOT/opt/{name}; ls /usr/bin/env; echo over; sleep 1000"
    );
    let debugger = ContainerSpec { target: Some("main".to_owned()), ..shell("debugger", &look) };
    let debugger = node.start(debugger).await;
    node.log_has(&debugger.id, "F over\n").await;
    let log = node.log(&debugger.id).await;
    assert_eq!(log.matches("F mine\n").count(), 3, "{log}");
    assert!(log.contains("No such file"), "the debugger does not see what the target removed: {log}");
    let other =
        node.start(shell("other", &format!("ls /usr/bin/env /opt/{name}; echo over; sleep 1000"))).await;
    node.log_has(&other.id, "F over\n").await;
    let log = node.log(&other.id).await;
    assert!(log.contains("F /usr/bin/env\n") && !log.contains(&format!("F /opt/{name}")), "{log}");
    node.runtime.kill_container(&record.id).await.unwrap();
    node.exit(&record.id).await;
    node.shutdown().await;
}
