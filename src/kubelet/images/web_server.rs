//! The small static web server behind the built-in nginx and httpd images (IMG-2).
//!
//! Serves one directory over HTTP/1.1, one thread, files streamed. It reads no configuration file and says
//! so when given one.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::io::ReaderStream;

use super::IMAGE_DIRECTORY;
use super::web_files::{Named, content_type, named};
use crate::object::low_ports::LowPorts;

/// How long requests may still take after a graceful end was asked for.
const DRAIN: Duration = Duration::from_mins(1);

type Body = BoxBody<Bytes, io::Error>;

/// What the server calls itself.
#[derive(Clone, Debug)]
pub(super) struct Flavour {
    /// The program's name in messages.
    pub(super) program: &'static str,
    /// The `Server` header.
    server: String,
    /// The directory it serves.
    pub(super) directory: &'static str,
    /// The page it brings along.
    welcome: String,
}

impl Flavour {
    /// nginx, in the version of the image's tag.
    pub(super) fn nginx() -> Self {
        let version = std::env::var("NGINX_VERSION").unwrap_or_else(|_| "1.27.4".to_owned());
        let welcome = format!(
            "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome to nginx!</title>\n</head>\n<body>\n\
             <h1>Welcome to nginx!</h1>\n<p>nginx/{version}, as built into Podium.</p>\n\
             <p>Mount a volume at /usr/share/nginx/html to serve pages of your own.</p>\n</body>\n</html>\n"
        );
        Self {
            program: "nginx",
            server: format!("nginx/{version}"),
            directory: "/usr/share/nginx/html",
            welcome,
        }
    }

    /// Apache's httpd.
    pub(super) fn httpd() -> Self {
        let version = std::env::var("HTTPD_VERSION").unwrap_or_else(|_| "2.4.63".to_owned());
        Self {
            program: "httpd",
            server: format!("Apache/{version} (Unix)"),
            directory: "/usr/local/apache2/htdocs",
            welcome: "<html><body><h1>It works!</h1></body></html>\n".to_owned(),
        }
    }

    /// What `-v` says.
    pub(super) fn version_text(&self) -> String {
        match self.program {
            "nginx" => format!("nginx version: {}", self.server),
            _ => format!("Server version: {}", self.server),
        }
    }
}

/// One running server.
struct Server {
    flavour: Flavour,
    directory: PathBuf,
}

/// Serves until SIGTERM (at once) or SIGQUIT and SIGWINCH (after the running requests).
pub(super) async fn serve(flavour: &Flavour) -> io::Result<()> {
    let directory = directory(flavour);
    fill(&directory, flavour)?;
    let ip = std::env::var("POD_IP").ok().and_then(|ip| ip.parse().ok());
    let listener = listen(ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 80, flavour).await?;
    let server = Rc::new(Server { flavour: flavour.clone(), directory });
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut winch = signal(SignalKind::window_change())?;
    let running = GracefulShutdown::new();
    let local = tokio::task::LocalSet::new();
    let accept = async {
        // Moved in: the listener closes as soon as no more is accepted.
        let listener = listener;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => connect(&server, stream, peer, &running),
                // Out of descriptors, most likely: others are about to be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let graceful = local.run_until(async {
        tokio::select! {
            () = accept => false,
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            _ = quit.recv() => true,
            _ = winch.recv() => true,
        }
    });
    if graceful.await {
        // Whoever is still downloading after this is cut off.
        let _ = local.run_until(tokio::time::timeout(DRAIN, running.shutdown())).await;
    }
    Ok(())
}

fn connect(server: &Rc<Server>, stream: TcpStream, peer: SocketAddr, running: &GracefulShutdown) {
    let server = Rc::clone(server);
    let service = hyper::service::service_fn(move |request| {
        let server = Rc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(&request, peer).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    let connection = builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_mins(1))
        .serve_connection(TokioIo::new(stream), service);
    let connection = running.watch(connection);
    tokio::task::spawn_local(async move {
        // A client that went away mid-way is its own business.
        let _ = connection.await;
    });
}

/// Where the node's low ports are not to be had, the one that stands for it, and a word about that.
async fn listen(ip: IpAddr, port: u16, flavour: &Flavour) -> io::Result<TcpListener> {
    let low_ports = LowPorts::read(std::env::var(LowPorts::VARIABLE).ok().as_deref());
    let address = SocketAddr::new(ip, low_ports.served(port));
    if address.port() != port {
        eprintln!(
            "{}: port {port} is root's here: serving on {address} instead (to change that: sysctl \
             net.ipv4.ip_unprivileged_port_start={port})",
            flavour.program
        );
    }
    TcpListener::bind(address).await.map_err(|error| at(address, &error))
}

fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("bind() to {address} failed ({error})"))
}

/// Without a mount namespace the directory's real place is in a variable.
fn directory(flavour: &Flavour) -> PathBuf {
    let name = flavour.directory.trim_matches('/').to_ascii_uppercase().replace('/', "_");
    let moved = std::env::var_os(format!("PODIUM_MOUNT_{name}"));
    moved.map_or_else(|| PathBuf::from(flavour.directory), PathBuf::from)
}

/// Puts the welcome page into the image's own directory; never into a volume.
fn fill(directory: &Path, flavour: &Flavour) -> io::Result<()> {
    let marker = directory.join(IMAGE_DIRECTORY);
    if marker.exists() {
        std::fs::write(directory.join("index.html"), &flavour.welcome)?;
        std::fs::remove_file(marker)?;
    }
    Ok(())
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

impl Server {
    async fn answer(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let mut response = self.respond(request).await;
        let headers = response.headers_mut();
        if let Ok(server) = HeaderValue::from_str(&self.flavour.server) {
            headers.insert(header::SERVER, server);
        }
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let length = length.unwrap_or("0").to_owned();
        self.log(
            request,
            peer,
            response.status(),
            if request.method() == Method::HEAD { "0" } else { &length },
        );
        if request.method() == Method::HEAD {
            *response.body_mut() = full("");
        }
        response
    }

    async fn respond(&self, request: &Request<Incoming>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = self.page(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let request_path = request.uri().path();
        let Named::Path(path) = named(&self.directory, request_path) else {
            return self.page(StatusCode::BAD_REQUEST);
        };
        match tokio::fs::metadata(&path).await {
            Ok(about) if about.is_dir() && !request_path.ends_with('/') => {
                let mut response = self.page(StatusCode::MOVED_PERMANENTLY);
                if let Ok(place) = HeaderValue::from_str(&format!("{request_path}/")) {
                    response.headers_mut().insert(header::LOCATION, place);
                }
                response
            }
            Ok(about) if about.is_dir() => match self.file(&path.join("index.html")).await {
                Ok(response) => response,
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.page(StatusCode::FORBIDDEN),
                Err(error) => self.failed(request_path, &error),
            },
            Ok(_) => match self.file(&path).await {
                Ok(response) => response,
                Err(error) => self.failed(request_path, &error),
            },
            Err(error) => self.failed(request_path, &error),
        }
    }

    async fn file(&self, path: &Path) -> io::Result<Response<Body>> {
        let file = tokio::fs::File::open(path).await?;
        let about = file.metadata().await?;
        if !about.is_file() {
            // A pipe or device would hang, or never end.
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let body = StreamBody::new(ReaderStream::new(file).map_ok(Frame::data));
        let mut response = Response::new(BodyExt::boxed(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(path)));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(about.len()));
        Ok(response)
    }

    fn failed(&self, request_path: &str, error: &io::Error) -> Response<Body> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        if error.kind() != NotFound {
            eprintln!("{}: {request_path}: {error}", self.flavour.program);
        }
        self.page(match error.kind() {
            NotFound | NotADirectory => StatusCode::NOT_FOUND,
            PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        })
    }

    /// The little page that stands for a status.
    fn page(&self, status: StatusCode) -> Response<Body> {
        let text = format!(
            "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n\
             <hr><center>{}</center>\r\n</body>\r\n</html>\r\n",
            self.flavour.server
        );
        let length = text.len();
        let mut response = Response::new(full(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        response
    }

    /// One line on standard output, in the combined format.
    #[expect(clippy::disallowed_methods, reason = "a program in a container lives in real time")]
    fn log(&self, request: &Request<Incoming>, peer: SocketAddr, status: StatusCode, length: &str) {
        let text = |name| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or("-").replace('"', "\\x22")
        };
        // A log that nobody reads any more is no reason to stop serving.
        let _ = writeln!(
            io::stdout(),
            "{} - - [{}] \"{} {} {:?}\" {} {length} \"{}\" \"{}\"{}",
            peer.ip(),
            jiff::Timestamp::now().strftime("%d/%b/%Y:%H:%M:%S +0000"),
            request.method(),
            request.uri(),
            request.version(),
            status.as_u16(),
            text(header::REFERER),
            text(header::USER_AGENT),
            if self.flavour.program == "nginx" { " \"-\"" } else { "" },
        );
    }
}
