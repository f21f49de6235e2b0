//! The small static web server behind the built-in nginx and httpd images (IMG-2).
//!
//! It serves one directory over HTTP/1.1 with one thread, and streams files. It reads no configuration file, and says
//! so if its arguments name one.
//!
//! Reasons against `ServeDir` of `tower-http` (0.7): it does not support `If-Range`, so that a download that is resumed
//! after the page has changed becomes a mixture of both; a directory without an index is 404 and not nginx's 403; its
//! response does not name the file that failed and the reason, which the error log contains; a whole file is sent with
//! its current length, not the announced one. The code still needed around it (an opener that refuses pipes and
//! devices, both servers' pages, their logs, their redirects) is as long as the code it replaces. HTTP itself is
//! hyper's.

mod conditions;
mod files;
mod log;
mod response;

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use super::IMAGE_DIRECTORY;
use super::entrypoint::real_path;
use object::low_ports::LowPorts;
use response::Site;
pub(crate) use response::{Body, full};

/// Timeout of running requests after a graceful stop.
const DRAIN: Duration = Duration::from_mins(1);
/// The time that connected clients have for their first request after a graceful stop.
const FIRST_REQUEST: Duration = Duration::from_secs(2);

/// The server's name and version.
#[derive(Clone, Debug)]
pub(super) struct ServerFlavor {
    /// The program's name in messages.
    pub(super) program: &'static str,
    /// The `Server` header: its own name, and that of the server it stands in for.
    server: String,
    /// The directory it serves.
    pub(super) directory: &'static str,
    /// The welcome page that comes with the image.
    welcome: String,
}

impl ServerFlavor {
    /// nginx, in the version of the image's tag.
    pub(super) fn nginx() -> Self {
        let version = std::env::var("NGINX_VERSION").unwrap_or_else(|_| "1.27.4".to_owned());
        let welcome = format!(
            "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome to nginx!</title>\n</head>\n<body>\n\
             <h1>Welcome to nginx!</h1>\n<p>podium (as nginx/{version})</p>\n\
             <p>Mount a volume at /usr/share/nginx/html to serve pages of your own.</p>\n</body>\n</html>\n"
        );
        Self {
            program: "nginx",
            server: format!("podium (as nginx/{version})"),
            directory: "/usr/share/nginx/html",
            welcome,
        }
    }

    /// Apache's httpd.
    pub(super) fn httpd() -> Self {
        let version = std::env::var("HTTPD_VERSION").unwrap_or_else(|_| "2.4.63".to_owned());
        Self {
            program: "httpd",
            server: format!("podium (as Apache/{version})"),
            directory: "/usr/local/apache2/htdocs",
            welcome: format!(
                "<html><body><h1>It works!</h1><p>podium (as Apache/{version})</p></body></html>\n"
            ),
        }
    }

    /// The guestbook's frontend of Kubernetes' documentation: its page, without its database.
    pub(super) fn guestbook() -> Self {
        Self {
            program: "apache2",
            server: "podium (as gb-frontend)".to_owned(),
            directory: "/var/www/html",
            welcome: "<!DOCTYPE html>\n<html>\n<head>\n<title>Guestbook</title>\n</head>\n<body>\n<h2>Guestbook</h2>\n\
                      <p>This is Podium's stand-in for gb-frontend: it serves this page and stores no messages.</p>\n\
                      </body>\n</html>\n"
                .to_owned(),
        }
    }

    /// The output of `-v`.
    pub(super) fn version_text(&self) -> String {
        match self.program {
            "nginx" => format!("nginx version: {}", self.server),
            _ => format!("Server version: {}", self.server),
        }
    }
}

/// One running server.
struct Server {
    site: Site,
    /// The number of connections so far, by which the error log numbers them.
    connections: Cell<u64>,
    /// The connections being served.
    running: TaskTracker,
    /// True once connections must end after their current request.
    ending: watch::Sender<bool>,
}

/// Returns the addresses to listen at: the pod's address if pods share the machine's loopback interface, otherwise
/// every address, of both families if the kernel has both.
pub(super) fn listening() -> Vec<IpAddr> {
    match std::env::var("POD_IP").ok().and_then(|ip| ip.parse::<IpAddr>().ok()) {
        Some(ip) if !ip.is_loopback() => vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
        other => vec![other.unwrap_or(Ipv4Addr::LOCALHOST.into())],
    }
}

/// Serves until SIGTERM (at once) or SIGQUIT and SIGWINCH (after the running requests). SIGHUP and SIGUSR1, which
/// reload configuration and log files, change nothing here.
pub(super) async fn serve(flavour: &ServerFlavor) -> io::Result<()> {
    let directory = real_path(flavour.directory);
    fill(&directory, flavour)?;
    let listener = listen(&listening(), 80, flavour.program).await?;
    let site = Site { flavour: flavour.clone(), directory };
    let (running, ending) = (TaskTracker::new(), watch::Sender::new(false));
    let server = Rc::new(Server { site, connections: Cell::new(0), running, ending });
    log::notice(flavour, &flavour.server);
    log::notice(
        flavour,
        &format!("serving {} on {}", server.site.directory.display(), listener.local_addr()?),
    );
    let _hangup = signal(SignalKind::hangup())?;
    let _reopen = signal(SignalKind::user_defined1())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut winch = signal(SignalKind::window_change())?;
    let local = tokio::task::LocalSet::new();
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => connect(&server, stream, peer.ip().to_canonical()),
                // Most likely the process is out of descriptors, and other connections will close soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let (name, graceful) = local
        .run_until(async {
            tokio::select! {
                () = accept => ("none", false),
                _ = terminate.recv() => ("15 (SIGTERM)", false),
                _ = interrupt.recv() => ("2 (SIGINT)", false),
                _ = quit.recv() => ("3 (SIGQUIT)", true),
                _ = winch.recv() => ("28 (SIGWINCH)", true),
            }
        })
        .await;
    let how = if graceful { "gracefully shutting down" } else { "exiting" };
    log::notice(flavour, &format!("signal {name} received, {how}"));
    if graceful {
        let rest = async {
            take_waiting(&server, listener)?;
            server.ending.send_replace(true);
            server.running.close();
            // Downloads that still run after this are cut off.
            let _ = tokio::time::timeout(DRAIN, server.running.wait()).await;
            Ok(())
        };
        return local.run_until(rest).await;
    }
    Ok(())
}

/// Accepts clients that have connected already and await acceptance: for them the server is up, and closing the
/// listener would cut them off. Later clients are refused.
fn take_waiting(server: &Rc<Server>, listener: TcpListener) -> io::Result<()> {
    let listener = listener.into_std()?;
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                connect(server, TcpStream::from_std(stream)?, peer.ip().to_canonical());
            }
            // The client disconnected while it waited.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // No client waits; or no descriptors are left, and then the waiting clients cannot be served.
            Err(_) => return Ok(()),
        }
    }
}

fn connect(server: &Rc<Server>, stream: TcpStream, peer: IpAddr) {
    let number = server.connections.get() + 1;
    server.connections.set(number);
    let requested = Rc::new(Notify::new());
    let service = {
        let (server, requested) = (Rc::clone(server), Rc::clone(&requested));
        hyper::service::service_fn(move |request| {
            requested.notify_one();
            let server = Rc::clone(&server);
            async move {
                let answer = server.site.respond(&request).await;
                log::request(&server.site.flavour, &request, peer, number, &answer);
                Ok::<_, Infallible>(answer.response)
            }
        })
    };
    let mut builder = hyper::server::conn::http1::Builder::new();
    let connection = builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_mins(1))
        .serve_connection(TokioIo::new(stream), service);
    let mut ending = server.ending.subscribe();
    let tracked = server.running.track_future(async move {
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            // A client that disconnects midway needs no handling.
            _ = &mut connection => return,
            _ = ending.wait_for(|ending| *ending) => {}
        }
        // A graceful shutdown would cut off a client that has connected but not yet sent its first request, which is on
        // the way.
        tokio::select! {
            _ = &mut connection => return,
            () = requested.notified() => {}
            () = tokio::time::sleep(FIRST_REQUEST) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    });
    tokio::task::spawn_local(tracked);
}

/// Listens at the first of these addresses that exists. If the machine denies a low port, listens on its substitute and
/// prints a note.
pub(super) async fn listen(ips: &[IpAddr], port: u16, program: &str) -> io::Result<TcpListener> {
    let low_ports = LowPorts::read(std::env::var(LowPorts::VARIABLE).ok().as_deref());
    let mut refused = None;
    for ip in ips {
        let address = SocketAddr::new(*ip, low_ports.served(port));
        match TcpListener::bind(address).await {
            Ok(listener) => {
                if address.port() != port {
                    eprintln!(
                        "{program}: only root can listen on port {port}; serving on {address} instead (to allow it: \
                         sysctl net.ipv4.ip_unprivileged_port_start={port})"
                    );
                }
                return Ok(listener);
            }
            Err(error) => refused = Some(at(address, &error)),
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("bind() to {address} failed ({error})"))
}

/// Writes the welcome page into the image's own directory, but never into a volume.
fn fill(directory: &Path, flavour: &ServerFlavor) -> io::Result<()> {
    let marker = directory.join(IMAGE_DIRECTORY);
    if marker.exists() {
        std::fs::write(directory.join("index.html"), &flavour.welcome)?;
        std::fs::remove_file(marker)?;
    }
    Ok(())
}
