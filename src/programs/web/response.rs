//! Responds to one request from the served directory, as nginx does.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::TryStreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::ServerFlavor;
use super::conditions::{Evaluation, Version};
use super::files::{RequestedPath, content_type, named};

pub(crate) type Body = BoxBody<Bytes, io::Error>;

/// The characters that are not escaped in the path of a Location.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A directory, and the settings for serving it.
pub(super) struct Site {
    pub(super) flavour: ServerFlavor,
    pub(super) directory: PathBuf,
}

/// The response to the client, and the entry for the error log.
pub(super) struct SiteResponse {
    pub(super) response: Response<Body>,
    pub(super) error_log: Option<String>,
}

impl From<Response<Body>> for SiteResponse {
    fn from(response: Response<Body>) -> Self {
        Self { response, error_log: None }
    }
}

pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

impl Site {
    pub(super) async fn respond<B>(&self, request: &Request<B>) -> SiteResponse {
        let mut answer = self.find(request).await;
        let response = &mut answer.response;
        set(response.headers_mut(), header::SERVER, &self.flavour.server);
        if request.method() == Method::HEAD {
            *response.body_mut() = full("");
        }
        answer
    }

    async fn find<B>(&self, request: &Request<B>) -> SiteResponse {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = self.page(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response.into();
        }
        let request_path = request.uri().path();
        let RequestedPath::Path(path) = named(&self.directory, request_path) else {
            return self.page(StatusCode::BAD_REQUEST).into();
        };
        match tokio::fs::metadata(&path).await {
            Ok(about) if about.is_dir() && !request_path.ends_with('/') => self.with_slash(&path, request),
            Ok(about) if about.is_dir() => {
                let index = path.join("index.html");
                match self.file(&index, request.headers()).await {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => SiteResponse {
                        response: self.page(StatusCode::FORBIDDEN),
                        error_log: Some(format!("directory index of \"{}/\" is forbidden", path.display())),
                    },
                    Err(error) => self.failed(&index, &error),
                    Ok(response) => response.into(),
                }
            }
            // `page.html/` is not a valid path.
            Ok(_) if request_path.ends_with('/') => self.failed(&path, &io::ErrorKind::NotADirectory.into()),
            Ok(_) => match self.file(&path, request.headers()).await {
                Ok(response) => response.into(),
                Err(error) => self.failed(&path, &error),
            },
            Err(error) => self.failed(&path, &error),
        }
    }

    /// Redirects the client to the same directory with a slash at the end. No path can redirect it to another host.
    fn with_slash<B>(&self, path: &Path, request: &Request<B>) -> SiteResponse {
        let below = path.strip_prefix(&self.directory).unwrap_or(path).to_string_lossy().into_owned();
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.map(|host| format!("http://{host}")).unwrap_or_default();
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let place = format!("{host}/{}/{query}", utf8_percent_encode(below.trim_matches('/'), IN_PATH));
        let mut response = self.page(StatusCode::MOVED_PERMANENTLY);
        set(response.headers_mut(), header::LOCATION, &place);
        response.into()
    }

    async fn file(&self, path: &Path, request_headers: &HeaderMap) -> io::Result<Response<Body>> {
        // A pipe without a writer would block here, and a device would never end.
        let mut file =
            tokio::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).await?;
        let about = file.metadata().await?;
        if !about.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let version = Version { modified: about.mtime(), length: about.len() };
        let (status, from, length) = match version.evaluate(request_headers) {
            Evaluation::Whole => (StatusCode::OK, 0, version.length),
            Evaluation::Part { from, length } => (StatusCode::PARTIAL_CONTENT, from, length),
            Evaluation::NotModified => (StatusCode::NOT_MODIFIED, 0, 0),
            Evaluation::OutOfRange => {
                let mut response = self.page(StatusCode::RANGE_NOT_SATISFIABLE);
                set(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{}", version.length));
                return Ok(response);
            }
        };
        let body = if length == 0 {
            full("")
        } else {
            file.seek(io::SeekFrom::Start(from)).await?;
            // A file that grows meanwhile is sent as it was announced.
            BodyExt::boxed(StreamBody::new(ReaderStream::new(file.take(length)).map_ok(Frame::data)))
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        set(headers, header::LAST_MODIFIED, &version.last_modified());
        set(headers, header::ETAG, &version.etag());
        if status != StatusCode::NOT_MODIFIED {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(path)));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        if status == StatusCode::PARTIAL_CONTENT {
            let range = format!("bytes {from}-{}/{}", from + length - 1, version.length);
            set(headers, header::CONTENT_RANGE, &range);
        }
        Ok(response)
    }

    fn failed(&self, path: &Path, error: &io::Error) -> SiteResponse {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let status = match error.kind() {
            NotFound | NotADirectory | io::ErrorKind::InvalidFilename => StatusCode::NOT_FOUND,
            PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let number = error.raw_os_error().map(|number| format!("{number}: ")).unwrap_or_default();
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or(&text);
        let message =
            format!("open() \"{}\" failed ({number}{text})", path.display().to_string().escape_debug());
        // httpd reports missing pages only in the access log.
        let logged = self.flavour.program == "nginx" || status != StatusCode::NOT_FOUND;
        SiteResponse { response: self.page(status), error_log: logged.then_some(message) }
    }

    /// The small page for a status.
    fn page(&self, status: StatusCode) -> Response<Body> {
        let name = match (self.flavour.program, status) {
            ("nginx", StatusCode::METHOD_NOT_ALLOWED) => "405 Not Allowed".to_owned(),
            ("nginx", StatusCode::RANGE_NOT_SATISFIABLE) => "416 Requested Range Not Satisfiable".to_owned(),
            _ => status.to_string(),
        };
        let text = format!(
            "<html>\r\n<head><title>{name}</title></head>\r\n<body>\r\n<center><h1>{name}</h1></center>\r\n\
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
}

/// Sets a header with a text that is ours or was checked; an invalid header value is left out.
fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct SiteFixture {
        around: tempfile::TempDir,
        site: Site,
    }

    impl SiteFixture {
        fn new() -> Self {
            let around = tempfile::tempdir().unwrap();
            let directory = around.path().join("html");
            std::fs::create_dir_all(directory.join("sub dir")).unwrap();
            std::fs::write(directory.join("index.html"), "<h1>hello</h1>").unwrap();
            std::fs::write(directory.join("data.json"), "0123456789").unwrap();
            std::fs::write(around.path().join("secret"), "secret").unwrap();
            let made = std::process::Command::new("mkfifo").arg(directory.join("pipe")).status().unwrap();
            assert!(made.success());
            Self { site: Site { flavour: ServerFlavor::nginx(), directory }, around }
        }

        async fn fetch(&self, request: Request<()>) -> (StatusCode, HeaderMap, String, Option<String>) {
            let answer = self.site.respond(&request).await;
            let (parts, body) = answer.response.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            (parts.status, parts.headers, String::from_utf8(bytes.to_vec()).unwrap(), answer.error_log)
        }

        async fn get(&self, path: &str) -> (StatusCode, HeaderMap, String, Option<String>) {
            self.fetch(Request::get(path).header("host", "web.example:8080").body(()).unwrap()).await
        }
    }

    /// IMG-2: directories are served as users of nginx expect.
    #[tokio::test]
    async fn a_directory_is_served_as_nginx_serves_it() {
        let scene = SiteFixture::new();
        let (status, headers, body, trouble) = scene.get("/").await;
        assert_eq!((status.as_u16(), body.as_str(), trouble), (200, "<h1>hello</h1>", None));
        assert!(headers["server"].to_str().unwrap().starts_with("podium (as nginx/1."), "{headers:?}");
        assert_eq!(headers["content-type"], "text/html");
        assert_eq!(headers["content-length"], "14");
        assert!(headers.contains_key("etag") && headers.contains_key("last-modified"));

        let html = scene.site.directory.display();
        let table = [
            ("/none", 404, Some(format!("open() \"{html}/none\" failed (2: No such file or directory)"))),
            ("/index.html/", 404, None),
            (
                "/index.html/x",
                404,
                Some(format!("open() \"{html}/index.html/x\" failed (20: Not a directory)")),
            ),
            ("/sub%20dir/", 403, Some(format!("directory index of \"{html}/sub dir/\" is forbidden"))),
            ("/pipe", 403, None),
            ("/../secret", 400, None),
            ("/%2e%2e/secret", 400, None),
            ("/sub%20dir/%2e%2e/%2e%2e/secret", 400, None),
        ];
        for (path, expect, logged) in table {
            let (status, _, body, trouble) = scene.get(path).await;
            assert_eq!(status.as_u16(), expect, "{path}");
            assert!(body.contains(&format!("<h1>{status}</h1>")) && !body.contains("secret"), "{body}");
            if logged.is_some() {
                assert_eq!(trouble, logged, "{path}");
            }
        }
        let long = format!("/{}", "a".repeat(300));
        assert_eq!(scene.get(&long).await.0.as_u16(), 404);
        drop(scene.around);
    }

    #[tokio::test]
    async fn a_directory_without_its_slash_is_redirected_on_the_same_host() {
        let scene = SiteFixture::new();
        let (status, headers, ..) = scene.get("//sub%20dir?a=b").await;
        assert_eq!(status.as_u16(), 301);
        assert_eq!(headers["location"], "http://web.example:8080/sub%20dir/?a=b");
    }

    #[tokio::test]
    async fn other_methods_heads_and_parts() {
        let scene = SiteFixture::new();
        let (status, headers, body, _) = scene.fetch(Request::post("/").body(()).unwrap()).await;
        assert_eq!((status.as_u16(), &headers["allow"]), (405, &HeaderValue::from_static("GET, HEAD")));
        assert!(body.contains("405 Not Allowed"), "{body}");
        let (status, headers, body, _) = scene.fetch(Request::head("/data.json").body(()).unwrap()).await;
        assert_eq!(
            (status.as_u16(), body.as_str(), &headers["content-length"]),
            (200, "", &HeaderValue::from(10))
        );
        let etag = headers["etag"].clone();
        let part = Request::get("/data.json").header("range", "bytes=2-4").body(()).unwrap();
        let (status, headers, body, _) = scene.fetch(part).await;
        assert_eq!((status.as_u16(), body.as_str()), (206, "234"));
        assert_eq!(headers["content-range"], "bytes 2-4/10");
        let beyond = Request::get("/data.json").header("range", "bytes=10-").body(()).unwrap();
        let (status, headers, ..) = scene.fetch(beyond).await;
        assert_eq!(
            (status.as_u16(), &headers["content-range"]),
            (416, &HeaderValue::from_static("bytes */10"))
        );
        let known = Request::get("/data.json").header("if-none-match", etag).body(()).unwrap();
        let (status, headers, body, _) = scene.fetch(known).await;
        assert_eq!((status.as_u16(), body.as_str()), (304, ""));
        assert!(!headers.contains_key("content-type"));
    }
}
