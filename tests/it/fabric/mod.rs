//! The pods' network without pods: its process, leaves, sockets in them (NET-5). As root and as an ordinary user.

mod crashes;
mod leaves;
mod nft;
mod policies;
mod services;
mod traffic;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use fabric::{Fabric, LeafSpec, RouterConfig, SocketKind, SocketSpec, set_up};
use tempfile::TempDir;

use crate::needs::{Need, lacks};

/// The user that runs a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user that runs the tests.
    Own,
    /// A user without rights.
    Ordinary,
}

/// `nobody`: no process of the tests runs as this user but the fabric.
const ORDINARY: u32 = 65_534;

/// A fabric's process, and a connection to it.
struct FabricProcess {
    directory: TempDir,
    process: Child,
    fabric: Fabric,
}

impl FabricProcess {
    /// Starts a fabric's process; the error is the reason for which the machine refuses it.
    fn start(user: User) -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        if user == User::Ordinary {
            std::os::unix::fs::chown(directory.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
        let process = spawn(directory.path(), user, |_| {})?;
        let fabric = Fabric::connect(&directory.path().join("socket")).unwrap();
        Ok(Self { directory, process, fabric })
    }

    /// Starts one with a router and this many leaves `l1`, `l2` … at 10.244.1.N and fd00:10:244::1:N.
    fn with_leaves(user: User, count: u8) -> Result<Self, String> {
        let running = Self::start(user)?;
        running.route();
        (1..=count).for_each(|number| running.fabric.leaf(leaf(number)).unwrap());
        Ok(running)
    }

    fn route(&self) {
        let route = self.fabric.socket(&SocketSpec::new(SocketKind::Route)).unwrap();
        let mut cluster = vec!["10.244.0.0/16".parse().unwrap()];
        if fabric::has_ipv6() {
            cluster.push("fd00:10:244::/48".parse().unwrap());
        }
        set_up(route, &RouterConfig { own: vec!["10.244.0.1".parse().unwrap()], cluster }).unwrap();
    }

    fn socket_path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Opens a listener in a leaf.
    fn listen(&self, leaf: &str, address: &str) -> TcpListener {
        let address: SocketAddr = address.parse().unwrap();
        let spec = SocketSpec {
            bind: Some(address),
            listen: Some(64),
            ..SocketSpec::new(tcp(address)).in_leaf(leaf)
        };
        let listener = TcpListener::from(self.fabric.socket(&spec).unwrap());
        listener.set_nonblocking(false).unwrap();
        listener
    }

    /// Connects from a leaf.
    fn connect(&self, leaf: &str, to: &str) -> std::io::Result<TcpStream> {
        let to: SocketAddr = to.parse().unwrap();
        connect(self.fabric.socket(&SocketSpec::new(tcp(to)).in_leaf(leaf)).unwrap(), to)
    }
}

impl Drop for FabricProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn tcp(address: SocketAddr) -> SocketKind {
    if address.is_ipv4() { SocketKind::TcpV4 } else { SocketKind::TcpV6 }
}

/// Connects a socket of another network namespace, blocking.
fn connect(socket: OwnedFd, to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    rustix::net::connect(&stream, &to)?;
    Ok(stream)
}

fn leaf(number: u8) -> LeafSpec {
    let mut addresses = vec![format!("10.244.1.{number}").parse().unwrap()];
    if fabric::has_ipv6() {
        addresses.push(format!("fd00:10:244::1:{number}").parse().unwrap());
    }
    LeafSpec::new(format!("l{number}"), addresses, 1500)
}

/// Starts the process and waits for its first line: `Err` has the reason for which it does not serve.
fn spawn(directory: &Path, user: User, set: impl FnOnce(&mut Command)) -> Result<Child, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.arg("fabric").arg("--state").arg(directory).arg("--socket").arg(directory.join("socket"));
    if user == User::Ordinary {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    set(&mut command);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.trim() == "ready" {
        return Ok(process);
    }
    let _ = process.wait();
    Err(line.trim().to_owned())
}

/// Both users, or the only one available: only root can become another user. Users that this machine refuses such a
/// network are left out, and counted.
fn users() -> Vec<User> {
    let is_root = rustix::process::geteuid().is_root();
    let all = if is_root { vec![User::Own, User::Ordinary] } else { vec![User::Own] };
    all.into_iter().filter(|user| !lacks(Need::PodNetwork, can_be_made(*user))).collect()
}

/// Returns true if this machine lets a user have such a network; the first call tries that with a complete one.
pub(crate) fn can_be_made(user: User) -> bool {
    static OWN: OnceLock<bool> = OnceLock::new();
    static ORDINARY: OnceLock<bool> = OnceLock::new();
    let known = match user {
        User::Own => &OWN,
        User::Ordinary => &ORDINARY,
    };
    *known.get_or_init(|| {
        let tried = FabricProcess::start(user).map(|running| {
            let route = running.fabric.socket(&SocketSpec::new(SocketKind::Route)).unwrap();
            let routed = set_up(route, &RouterConfig { own: Vec::new(), cluster: Vec::new() });
            routed.and_then(|()| running.fabric.leaf(leaf(1)))
        });
        matches!(tried, Ok(Ok(())))
    })
}
