//! The process inside the namespaces (`podium fabric`): it creates and holds the namespaces, and hands out sockets in
//! them.
//!
//! It has one thread, as a process that changes namespaces must, and it decides nothing. It ends on request, when its
//! directory is gone, or when it has had no client for a long time: neither a control plane nor a node's host.
//!
//! Architecture Invariant: nothing here waits for a client.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use base::peer_credentials::is_trusted;
use base::removal::unless_missing;
use base::socket_path::reachable;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::descriptors::AT_ONCE;
use crate::namespaces::{enter_network, own_network, own_user, unshare_network};
use crate::protocol::{Request, Response, SocketSpec, receive, send};
use crate::sockets::{open_in, open_sockets};
use crate::{FabricError, LeafSpec, Namespaces, RouterHandle, enter_user_namespace, sysctl};

/// The interval at which the process checks for a reason to end.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum number of connected clients: a control plane or two, and the nodes' hosts.
const CLIENTS: usize = 1024;
/// Maximum number of retained listening sockets: those of the API, of DNS and of egress.
const MAX_RETAINED: usize = 1024;

/// Runs a fabric's process: `podium fabric --state DIR --socket PATH [--unclaimed SECONDS] [--network FD [--user FD]]`.
///
/// With descriptors it takes over the fabric of a process that has died. It prints one line on standard output:
/// `ready`, or the failed step and the reason. Must be called while the process has one thread.
pub fn fabric_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parse(arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // The process that started this one may have exited; then the message is lost.
            let _ = writeln!(io::stdout(), "{reason}");
            ExitCode::FAILURE
        }
    }
}

/// The command line of the process.
#[derive(Debug)]
struct Arguments {
    state: PathBuf,
    socket: PathBuf,
    /// The time for which the process lives without a client.
    unclaimed: Duration,
    /// The namespaces of an earlier process, which this one takes over.
    adopted: Option<Namespaces>,
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, String> {
    let mut arguments = arguments.into_iter();
    let (mut state, mut socket, mut unclaimed) = (None, None, Duration::MAX);
    let (mut network, mut user) = (None, None);
    while let Some(argument) = arguments.next() {
        let mut number = |name: &str| -> Result<f64, String> {
            let text = arguments.next().and_then(|text| text.to_str()?.parse().ok());
            text.ok_or_else(|| format!("{name} needs a number"))
        };
        match argument.to_str() {
            Some(name @ "--unclaimed") => {
                let seconds = Duration::try_from_secs_f64(number(name)?);
                unclaimed = seconds.map_err(|_| format!("{name} needs a number of seconds"))?;
            }
            Some(name @ "--network") => network = Some(number(name)? as RawFd),
            Some(name @ "--user") => user = Some(number(name)? as RawFd),
            Some("--state") => state = arguments.next().map(PathBuf::from),
            Some("--socket") => socket = arguments.next().map(PathBuf::from),
            _ => return Err(format!("unknown argument {}", argument.display())),
        }
    }
    let adopted = match (network, user) {
        (None, None) => None,
        (None, Some(_)) => return Err("--user needs --network".to_owned()),
        (Some(network), user) => {
            Some(Namespaces { network: inherited(network)?, user: user.map(inherited).transpose()? })
        }
    };
    Ok(Arguments {
        state: state.ok_or("--state DIR is missing")?,
        socket: socket.ok_or("--socket PATH is missing")?,
        unclaimed,
        adopted,
    })
}

/// A descriptor that this process was started with.
#[expect(unsafe_code, reason = "a number from the command line becomes a descriptor")]
fn inherited(number: RawFd) -> Result<OwnedFd, String> {
    if number < 3 || fs::metadata(format!("/proc/self/fd/{number}")).is_err() {
        return Err(format!("invalid namespace descriptor {number}"));
    }
    // SAFETY: it is open, and nothing else in this process knows of it: the parent process passed it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| format!("descriptor {number}: {error}"))?;
    Ok(descriptor)
}

fn run(arguments: Arguments) -> Result<(), String> {
    let at = |context: &'static str| move |error: io::Error| format!("{context}: {error}");
    DirBuilder::new().recursive(true).mode(0o700).create(&arguments.state).map_err(at("state directory"))?;
    let state = fs::canonicalize(&arguments.state).map_err(at("state directory"))?;
    let lock =
        File::options().create(true).append(true).open(state.join("fabric.lock")).map_err(at("lock"))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| format!("another fabric process uses {}", state.display()))?;
    // Signals of the terminal that the control plane runs in are not for us.
    let _ = rustix::process::setsid();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A lower limit only means fewer clients.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, all);

    // Opened in the machine's network: the path belongs to the machine, so that every client finds it.
    let listener = listen(&arguments.socket).map_err(at("socket"))?;
    let own = directory_id(&state);
    let inside = FabricState::enter(arguments.adopted).map_err(|error| error.to_string())?;
    // The starter reads this and continues.
    let _ = writeln!(io::stdout(), "ready");
    // Never dropped: the kernel closes the sockets when the process has ended, by which clients recognize the end.
    let mut daemon = ManuallyDrop::new(Daemon { inside, listener, clients: Vec::new() });
    let served = daemon.serve((&state, own), arguments.unclaimed);
    let _ = fs::remove_file(&arguments.socket);
    drop(lock);
    served.map_err(at("poll"))
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = reachable(path)?;
    unless_missing(fs::remove_file(&socket.path))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::bind(&listener, &SocketAddrUnix::new(&socket.path)?)?;
    fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&listener, 128)?;
    Ok(listener)
}

/// The namespaces, and the descriptors retained of them.
struct FabricState {
    namespaces: Namespaces,
    trunk: RouterHandle,
    /// Leaves by their links.
    leaves: BTreeMap<String, (LeafSpec, OwnedFd)>,
    /// Sockets that wait for connections.
    retained: BTreeMap<SocketSpec, OwnedFd>,
}

impl FabricState {
    /// Enters an existing fabric, or a new one.
    fn enter(adopted: Option<Namespaces>) -> Result<Self, FabricError> {
        let namespaces = match adopted {
            Some(namespaces) => {
                namespaces.enter_user()?;
                enter_network(namespaces.network.as_fd())?;
                namespaces
            }
            None => new_namespaces()?,
        };
        let route = crate::netlink::route::open()?;
        let network = namespaces.network.try_clone().map_err(FabricError::at("namespace"))?;
        let trunk = RouterHandle::from_parts(network, route);
        Ok(Self { namespaces, trunk, leaves: BTreeMap::new(), retained: BTreeMap::new() })
    }

    /// Executes a request, and returns the descriptors that go with the response.
    fn execute(&mut self, request: Request, beside: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, FabricError> {
        let copied = |descriptor: &OwnedFd| descriptor.try_clone().map_err(FabricError::at("descriptor"));
        match request {
            Request::Namespaces => {
                let Namespaces { network, user } = &self.namespaces;
                [Some(network), user.as_ref()].into_iter().flatten().map(copied).collect()
            }
            Request::Leaf(leaf) => {
                if self.leaves.get(&leaf.link).is_none_or(|(known, _)| *known != leaf) {
                    let namespace = self.trunk.leaf(&leaf)?;
                    self.forget_sockets(&leaf.link);
                    self.leaves.insert(leaf.link.clone(), (leaf, namespace));
                }
                Ok(Vec::new())
            }
            Request::LeafNamespace(link) => match self.leaves.get(&link) {
                Some((_, namespace)) => Ok(vec![copied(namespace)?]),
                None => Err(no_leaf(&link)),
            },
            Request::AdoptLeaf(leaf) => {
                let namespace = beside.into_iter().next();
                let namespace = namespace.ok_or_else(|| no_leaf(&leaf.link))?;
                self.leaves.insert(leaf.link.clone(), (leaf, namespace));
                Ok(Vec::new())
            }
            Request::RemoveLeaf(link) => {
                self.forget_sockets(&link);
                self.leaves.remove(&link);
                Ok(Vec::new())
            }
            Request::Sockets { spec, .. } if spec.listen.is_some() => {
                if let Some(retained) = self.retained.get(&spec) {
                    return Ok(vec![copied(retained)?]);
                }
                if self.retained.len() >= MAX_RETAINED {
                    let full = io::Error::other(format!(
                        "{MAX_RETAINED} listening sockets are open, which is the maximum"
                    ));
                    return Err(FabricError::new("socket", full));
                }
                let socket = self.open(&spec, 1)?.pop();
                let socket = socket.ok_or_else(|| FabricError::new("socket", io::ErrorKind::Other.into()))?;
                let copy = copied(&socket)?;
                self.retained.insert(spec, socket);
                Ok(vec![copy])
            }
            Request::Sockets { spec, count } => self.open(&spec, count.min(AT_ONCE)),
            Request::Detour(slot) => Ok(vec![self.trunk.detour(slot)?]),
            Request::RemoveDetour(slot) => self.trunk.remove_detour(slot).map(|()| Vec::new()),
            Request::Shutdown => Ok(Vec::new()),
        }
    }

    fn forget_sockets(&mut self, link: &str) {
        self.retained.retain(|spec, _| spec.leaf.as_deref() != Some(link));
    }

    /// Opens sockets in the requested leaf.
    fn open(&self, spec: &SocketSpec, count: usize) -> Result<Vec<OwnedFd>, FabricError> {
        let Some(link) = &spec.leaf else { return open_sockets(spec, count) };
        let (_, leaf) = self.leaves.get(link).ok_or_else(|| no_leaf(link))?;
        open_in(leaf.as_fd(), self.namespaces.network.as_fd(), spec, count)
    }
}

fn no_leaf(link: &str) -> FabricError {
    FabricError::new(format!("leaf {link}"), io::Error::from_raw_os_error(libc::ENOENT))
}

/// Creates and enters a new fabric's namespaces, with the settings that can only be made inside.
pub(crate) fn new_namespaces() -> Result<Namespaces, FabricError> {
    let user = if rustix::process::geteuid().is_root() {
        // Root uses its own user namespace: in another one, containers of other users would not be mapped. If it is not
        // the machine's, processes outside must enter it first.
        if base::subordinate_ids::is_machine_root() { None } else { Some(own_user()?) }
    } else {
        enter_user_namespace().map_err(FabricError::at("user namespace"))?;
        Some(own_user()?)
    };
    unshare_network()?;
    for (name, value) in [
        ("ipv4/ip_forward", "1"),
        // Leaves share a gateway: no redirect could point to a shorter route.
        ("ipv4/conf/all/send_redirects", "0"),
        ("ipv4/conf/default/send_redirects", "0"),
        // A packet from a leaf must have the leaf's own address as its source, because rules match the source. The
        // kernel uses the larger one of a link's value and that of `all`.
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "1"),
    ] {
        sysctl::set(name, value)?;
    }
    // Each packet to a port without a listener gets an ICMP error (the DNS of a control plane that is down): without it
    // programs wait for seconds, and then treat the silence as a response.
    sysctl::set_if_exists("ipv4/icmp_ratelimit", "0")?;
    sysctl::set_if_exists("ipv6/icmp/ratelimit", "0")?;
    sysctl::set_if_exists("ipv6/conf/all/disable_ipv6", "0")?;
    sysctl::set_if_exists("ipv6/conf/default/disable_ipv6", "0")?;
    sysctl::set_if_exists("ipv6/conf/all/forwarding", "1")?;
    sysctl::set_if_exists("ipv6/conf/default/accept_dad", "0")?;
    Ok(Namespaces { user, network: own_network()? })
}

/// The state of the serving process.
struct Daemon {
    inside: FabricState,
    listener: OwnedFd,
    clients: Vec<OwnedFd>,
}

impl Daemon {
    /// Serves until no client can need the fabric any more; `own` is the id of the state directory at the start.
    fn serve(&mut self, (state, own): (&Path, Option<(u64, u64)>), unclaimed: Duration) -> io::Result<()> {
        let mut alone = Duration::ZERO;
        loop {
            let ready = self.wait()?;
            if ready.is_empty() {
                alone = if self.clients.is_empty() { alone.saturating_add(LOOK) } else { Duration::ZERO };
                if alone >= unclaimed || directory_id(state) != own {
                    return Ok(());
                }
            }
            // In reverse order, so that indices stay valid while clients are removed.
            for place in ready.into_iter().rev() {
                match place.checked_sub(1) {
                    None => self.accept(),
                    Some(client) => match self.serve_one(client) {
                        Ok(ClientOutcome::Goes) => drop(self.clients.swap_remove(client)),
                        Ok(ClientOutcome::Stays) => {}
                        Ok(ClientOutcome::Ends) => return Ok(()),
                        Err(error) => {
                            eprintln!("fabric: client: {error}");
                            self.clients.swap_remove(client);
                        }
                    },
                }
            }
        }
    }

    /// Waits for clients, and returns the indices of ready ones: 0 is the listener, then the clients.
    fn wait(&self) -> io::Result<Vec<usize>> {
        let all = [&self.listener].into_iter().chain(&self.clients);
        let mut poll_fds: Vec<PollFd<'_>> = all.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let look = Timespec { tv_sec: LOOK.as_secs() as i64, tv_nsec: 0 };
        match rustix::event::poll(&mut poll_fds, Some(&look)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let ready = poll_fds.iter().enumerate().filter(|(_, socket)| !socket.revents().is_empty());
        Ok(ready.map(|(place, _)| place).collect())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(client) = rustix::net::accept_with(&self.listener, flags) else { return };
        if is_trusted(&client) && self.clients.len() < CLIENTS {
            self.clients.push(client);
        }
    }

    fn serve_one(&mut self, client: usize) -> io::Result<ClientOutcome> {
        let (request, beside) = match receive::<Request>(&self.clients[client]) {
            Ok(Some(got)) => got,
            Ok(None) => return Ok(ClientOutcome::Goes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ClientOutcome::Stays),
            Err(error) => return Err(error),
        };
        let ends = request == Request::Shutdown;
        let (answer, beside) = match self.inside.execute(request, beside) {
            Ok(beside) => (Response::Done, beside),
            Err(FabricError { step, source }) => {
                let code = source.raw_os_error().unwrap_or(libc::EIO);
                (Response::Failed { step, code }, Vec::new())
            }
        };
        let beside: Vec<BorrowedFd<'_>> = beside.iter().map(AsFd::as_fd).collect();
        send(&self.clients[client], &answer, &beside)?;
        Ok(if ends { ClientOutcome::Ends } else { ClientOutcome::Stays })
    }
}

/// The next state of a client.
enum ClientOutcome {
    Stays,
    Goes,
    /// The client has requested the shutdown.
    Ends,
}

/// Identifies the directory at a path.
fn directory_id(state: &Path) -> Option<(u64, u64)> {
    fs::metadata(state).ok().map(|about| (about.dev(), about.ino()))
}
