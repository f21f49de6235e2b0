//! Docker's configuration of this machine: `config.json` with its credentials and credential helpers (IMG-6).
//!
//! The file is read at each use, so that `docker login` applies at once. A helper is a program `docker-credential-NAME`
//! of the user's `PATH`; it gets a registry's name on standard input, and must answer within a time limit.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use indexmap::IndexMap;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::auth_entries::{AuthEntry, FoundCredentials, entries, matching, parse};
use super::credential::{Credential, CredentialError, SecretText};
use base::subordinate_ids::as_real_user;

/// The maximum size of the file.
const FILE_BYTES: u64 = 1 << 20;
/// The maximum size of a helper's answer.
const ANSWER_BYTES: u64 = 64 << 10;
/// The time limit of a helper. Helpers of clouds use the network, and those of desktops may ask the user.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// Docker Hub's name in docker's configuration and for helpers.
const HUB_SERVER: &str = "https://index.docker.io/v1/";

/// The location of docker's configuration.
#[derive(Clone, Debug)]
pub struct DockerConfig {
    path: PathBuf,
    helper_path: Option<OsString>,
    helper_timeout: Duration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    auths: IndexMap<String, AuthEntry>,
    #[serde(rename = "credsStore")]
    store: String,
    #[serde(rename = "credHelpers")]
    helpers: IndexMap<String, String>,
}

/// The answer of a helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

impl DockerConfig {
    /// The configuration of the current user: `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`; `None` if the
    /// user has no home.
    pub fn of_user() -> Option<Self> {
        let directory = std::env::var_os("DOCKER_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let directory = directory.or_else(|| Some(std::env::home_dir()?.join(".docker")))?;
        Some(Self::at(directory.join("config.json")))
    }

    /// The configuration in a file, which does not need to exist.
    pub fn at(path: PathBuf) -> Self {
        Self { path, helper_path: std::env::var_os("PATH"), helper_timeout: HELPER_TIMEOUT }
    }

    /// Searches helpers in other directories than those of `PATH`, and limits their time.
    #[cfg(test)]
    pub(super) fn with_helpers(mut self, path: impl Into<OsString>, timeout: Duration) -> Self {
        (self.helper_path, self.helper_timeout) = (Some(path.into()), timeout);
        self
    }

    /// The credentials for `HOST[:PORT]/REPOSITORY`. A failure is a problem of its own, because the image may need
    /// none.
    pub(super) async fn lookup(&self, target: &str) -> FoundCredentials {
        let mut found = FoundCredentials::default();
        let read = self.read().and_then(|file| {
            let Some(File { auths, store, helpers }) = file else { return Ok(None) };
            Ok(Some((entries(&self.path.display().to_string(), auths)?, store, helpers)))
        });
        let (auths, store, helpers) = match read {
            Ok(None) => return found,
            Ok(Some(file)) => file,
            Err(problem) => {
                found.problems.push(problem);
                return found;
            }
        };
        let host = target.split('/').next().unwrap_or(target);
        let server = if host == "docker.io" { HUB_SERVER } else { host };
        let names = [server, host, "index.docker.io"];
        let names = &names[..if host == "docker.io" { 3 } else { 2 }];
        let of_host = names.iter().find_map(|name| helpers.get(*name));
        if let Some(helper) = of_host.or(Some(&store)).filter(|helper| !helper.is_empty()) {
            match self.run_helper(helper, server).await {
                Ok(credential) => found.credentials.extend(credential),
                Err(reason) => found.problems.push(CredentialError::Helper {
                    helper: format!("docker-credential-{}", super::error::shown_text(helper, 100)),
                    reason,
                }),
            }
        }
        found.credentials.extend(matching(&auths, target));
        found
    }

    fn read(&self) -> Result<Option<File>, CredentialError> {
        let path = self.path.display().to_string();
        match read_bounded(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CredentialError::File { path, reason: error.to_string() }),
            Ok(content) => parse(&path, &content).map(Some),
        }
    }

    /// Runs a helper; `None` if it has no credential for the registry.
    async fn run_helper(&self, name: &str, server: &str) -> Result<Option<Credential>, String> {
        if name.contains('/') || name.contains('\0') {
            return Err("the name must not contain a slash".into());
        }
        let program = self.find_program(&format!("docker-credential-{name}"))?;
        let mut command = tokio::process::Command::new(program);
        command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        as_real_user(command.as_std_mut());
        // A group of its own, so that programs which it started end with it.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let group = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        let answer = tokio::time::timeout(self.helper_timeout, async {
            let mut input = child.stdin.take().ok_or("no standard input")?;
            let output = child.stdout.take().ok_or("no standard output")?;
            // A helper may answer without reading.
            let _ = input.write_all(server.as_bytes()).await;
            drop(input);
            let mut answer = Vec::new();
            output
                .take(ANSWER_BYTES + 1)
                .read_to_end(&mut answer)
                .await
                .map_err(|error| error.to_string())?;
            if answer.len() as u64 > ANSWER_BYTES {
                return Err(format!("the answer is larger than {ANSWER_BYTES} bytes"));
            }
            let status = child.wait().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((status, answer))
        });
        let answer = answer.await;
        if !matches!(answer, Ok(Ok(_)))
            && let Some(group) = group
        {
            // Fails if all of the group have ended.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let (status, answer) =
            answer.map_err(|_| format!("no answer within {} s", self.helper_timeout.as_secs_f32()))??;
        if !status.success() {
            let text = String::from_utf8_lossy(&answer);
            if text.contains("credentials not found") {
                return Ok(None);
            }
            // The answer of a failed helper is a message by the helpers' protocol, but may be anything: it is not shown.
            return Err(format!("failed: {status}"));
        }
        let answer: HelperAnswer =
            serde_json::from_slice(&answer).map_err(|_| "the answer is not valid JSON".to_owned())?;
        if answer.username.is_empty() && answer.secret.is_empty() {
            return Ok(None);
        }
        let secret = SecretText::new(answer.secret);
        Ok(Some(match answer.username.as_str() {
            "<token>" => Credential::IdentityToken(secret),
            _ => Credential::Password { username: answer.username, password: secret },
        }))
    }

    /// Finds a helper in absolute directories of `PATH`, so that the working directory never provides one.
    fn find_program(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.helper_path.clone().unwrap_or_default();
        let mut candidates = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        let found = candidates.find(|directory| directory.join(name).is_file());
        found.map(|directory| directory.join(name)).ok_or_else(|| "not found in PATH".into())
    }
}

/// Reads a small regular file.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_BYTES {
        return Err(io::Error::other(format!("larger than {FILE_BYTES} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    /// A configuration and its helpers, programs `docker-credential-NAME`.
    fn config(directory: &Path, content: &str, helpers: &[(&str, &str)]) -> DockerConfig {
        std::fs::write(directory.join("config.json"), content).unwrap();
        for (name, script) in helpers {
            let path = directory.join(format!("docker-credential-{name}"));
            let file = std::fs::File::options().write(true).create_new(true).mode(0o755).open(path);
            std::io::Write::write_all(&mut file.unwrap(), format!("#!/bin/sh\n{script}").as_bytes()).unwrap();
        }
        DockerConfig::at(directory.join("config.json")).with_helpers(directory, Duration::from_secs(20))
    }

    /// IMG-6: helpers come before the file, the host's own before the general one, and get docker's names.
    #[tokio::test]
    async fn helpers_come_before_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let answer = r#"[ "$1" = get ] || exit 9; read -r server; echo "{\"ServerURL\":\"x\",\"Username\":\"$server\",\"Secret\":\"pw\"}""#;
        let docker = config(
            directory.path(),
            r#"{"auths":{"a.io":{},"b.io":{"username":"file","password":"1"}},"credsStore":"all",
                "credHelpers":{"token.io":"token","c.io":"none"}}"#,
            &[
                ("all", answer),
                ("token", r#"echo '{"Username":"<token>","Secret":"t"}'"#),
                ("none", "echo credentials not found in native keychain; exit 1"),
            ],
        );
        let table = [
            ("a.io/x", vec!["a.io:pw"]),
            ("b.io/x", vec!["b.io:pw", "file:1"]),
            ("docker.io/library/nginx", vec!["https://index.docker.io/v1/:pw"]),
            ("token.io/x", vec!["identity t"]),
            ("c.io/x", vec![]),
        ];
        for (target, expect) in table {
            let found = docker.lookup(target).await;
            assert_eq!(
                (found.users(), &found.problems[..]),
                (expect.into_iter().map(str::to_owned).collect(), &[][..])
            );
        }
    }

    /// IMG-6, SEC-2: a helper that fails is a problem beside the file's credentials, and shows nothing that it wrote.
    #[tokio::test]
    async fn a_failed_helper_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let docker = config(
            directory.path(),
            r#"{"auths":{"hang.io":{"username":"file"}},"credHelpers":{"fails.io":"fails","text.io":"text",
                "large.io":"large","path.io":"../../bin/x","absent.io":"absent","hang.io":"hang"}}"#,
            &[
                ("fails", "echo sesame; exit 3"),
                ("text", "echo sesame"),
                ("large", "head -c 100000 /dev/zero"),
                ("hang", "sleep 1000 & wait"),
            ],
        );
        let docker = DockerConfig { helper_timeout: Duration::from_millis(300), ..docker };
        let table = [
            ("fails.io/x", "docker-credential-fails: failed: exit status: 3"),
            ("text.io/x", "the answer is not valid JSON"),
            ("large.io/x", "the answer is larger than 65536 bytes"),
            ("path.io/x", "the name must not contain a slash"),
            ("absent.io/x", "not found in PATH"),
            ("hang.io/x", "no answer within 0.3 s"),
        ];
        for (target, expect) in table {
            let found = docker.lookup(target).await;
            let problem = found.problems[0].to_string();
            // A busy machine may be slower than the time limit.
            assert!(problem.contains(expect) || problem.contains("no answer within"), "{target}: {problem}");
            assert!(!problem.contains("sesame"));
            assert_eq!(found.credentials.len(), usize::from(target == "hang.io/x"));
        }
    }

    /// IMG-6: an absent file has no credentials, and a bad one is a problem.
    #[tokio::test]
    async fn an_absent_file_is_no_problem() {
        let directory = tempfile::tempdir().unwrap();
        let absent = DockerConfig::at(directory.path().join("absent")).lookup("a.io/x").await;
        assert!(absent.credentials.is_empty() && absent.problems.is_empty());
        let docker = config(directory.path(), "sesame", &[]);
        let problem = docker.lookup("a.io/x").await.problems[0].to_string();
        assert!(
            problem.contains("config.json is not a valid docker configuration")
                && !problem.contains("sesame")
        );
        let directory = DockerConfig::at(directory.path().to_owned()).lookup("a.io/x").await;
        assert!(directory.problems[0].to_string().contains("not a regular file"));
    }
}
