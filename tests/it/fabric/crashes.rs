//! Crashes of the fabric's processes, and the parts that survive.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use fabric::{Fabric, SocketKind, SocketSpec};
use rustix::io::FdFlags;

use super::{FabricProcess, User, spawn, users};
use crate::instance::wait_for;

/// Starts a process for a fabric without one, from descriptors that another process has.
fn adopt(directory: &Path, user: User, network: &OwnedFd, of_user: Option<&OwnedFd>) -> std::process::Child {
    for descriptor in [Some(network), of_user].into_iter().flatten() {
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
    }
    spawn(directory, user, |command| {
        command.arg("--network").arg(network.as_raw_fd().to_string());
        if let Some(of_user) = of_user {
            command.arg("--user").arg(of_user.as_raw_fd().to_string());
        }
    })
    .unwrap()
}

/// NET-5: connections survive the end of the fabric's process, and another one takes over its state.
#[test]
fn a_fabric_outlives_its_process_net_5() {
    for user in users() {
        let mut running = FabricProcess::with_leaves(user, 2).unwrap();
        let held = running.fabric.namespaces().unwrap();
        let listener = running.listen("l1", "0.0.0.0:80");
        let mut open = running.connect("l2", "10.244.1.1:80").unwrap();
        let (mut served, _) = listener.accept().unwrap();
        let spare = running.fabric.sockets(&SocketSpec::new(SocketKind::TcpV4).in_leaf("l2"), 1).unwrap();

        running.process.kill().unwrap();
        running.process.wait().unwrap();
        open.write_all(b"still here").unwrap();
        let mut received = [0; 10];
        served.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"still here");
        for socket in spare {
            super::connect(socket, "10.244.1.1:80".parse().unwrap()).unwrap();
            listener.accept().unwrap();
        }

        running.process = adopt(running.directory.path(), user, &held.network, held.user.as_ref());
        running.fabric = Fabric::connect(&running.socket_path()).unwrap();
        running.route();
        running.fabric.leaf(super::leaf(3)).unwrap();
        running.connect("l3", "10.244.1.1:80").unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.ip().to_string(), "10.244.1.3", "{user:?}: old leaves and new ones see each other");
    }
}

/// NET-5: connections to a listening socket wait while its server is down, and are served by the next one.
#[test]
fn connections_wait_for_who_serves_next_net_5() {
    let Some(user) = users().first().copied() else { return };
    let running = FabricProcess::with_leaves(user, 2).unwrap();
    drop(running.listen("l1", "0.0.0.0:443"));
    let mut asking = running.connect("l2", "10.244.1.1:443").unwrap();
    asking.write_all(b"anybody?").unwrap();
    let (mut accepted, _) = running.listen("l1", "0.0.0.0:443").accept().unwrap();
    let mut received = [0; 8];
    accepted.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"anybody?");
}

/// NET-5: an unused fabric leaves nothing behind: the process ends, its socket is removed, and so are the kernel's
/// namespaces.
#[test]
fn a_fabric_ends_on_request_and_when_it_is_unclaimed_net_5() {
    for user in users() {
        let mut running = FabricProcess::with_leaves(user, 1).unwrap();
        running.fabric.shut_down().unwrap();
        assert!(running.process.wait().unwrap().success());
        assert_eq!(Fabric::connect(&running.socket_path()).unwrap_err().kind(), ErrorKind::NotFound);

        let directory = tempfile::tempdir().unwrap();
        if user == User::Ordinary {
            std::os::unix::fs::chown(directory.path(), Some(super::ORDINARY), None).unwrap();
        }
        let set = |command: &mut std::process::Command| {
            command.args(["--unclaimed", "0"]);
        };
        let mut alone = spawn(directory.path(), user, set).unwrap();
        wait_for("the end of an unclaimed fabric", || alone.try_wait().unwrap());

        let mut lost = spawn(directory.path(), user, |_| {}).unwrap();
        let _client = Fabric::connect(&directory.path().join("socket")).unwrap();
        drop(directory);
        wait_for("the end of a fabric whose directory is gone", || lost.try_wait().unwrap());
    }
}

/// SEC-2: a client that sends invalid data is disconnected, and the others are served.
#[test]
fn nonsense_is_no_reason_to_end_sec_2() {
    let Some(user) = users().first().copied() else { return };
    let running = FabricProcess::with_leaves(user, 1).unwrap();
    let seqpacket = || {
        let kind = rustix::net::SocketType::SEQPACKET;
        let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(running.socket_path()).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        socket
    };
    let long = vec![0xff; 60_000];
    for message in [&b"nonsense"[..], &long, b"{\"Leaf\": 7}"] {
        let socket = seqpacket();
        rustix::net::send(&socket, message, rustix::net::SendFlags::empty()).unwrap();
        let mut answer = [0; 16];
        let got = rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty());
        assert_eq!(got.map(|(length, _)| length), Ok(0), "it hangs up");
    }
    running.fabric.namespaces().unwrap();
}
