//! Selects the credentials for an image, as Kubernetes' credential provider does (IMG-6): from pull secrets, then from
//! docker's configuration on this machine.
//!
//! A key of `auths` is `[https://]HOST[:PORT][/PATH]`. Each part of the host may be a glob, the port must be equal, and
//! the path is a prefix of the repository. All matching credentials are tried, the most specific first.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::Deserialize;

use super::auth_entries::{AuthEntry, FoundCredentials, ImagePattern, entries, matching, parse};
use super::credential::{Credential, CredentialError};
use super::docker_config::DockerConfig;
use base::sort::SliceOrder;

/// The credentials that apply to a pod, or to a user of this machine.
#[derive(Clone, Default)]
pub struct Keyring {
    /// In the order in which they are tried.
    entries: Vec<(ImagePattern, Credential)>,
    docker: Option<Arc<DockerConfig>>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.entries.iter().map(|(pattern, _)| pattern.key.as_str()).collect();
        f.debug_struct("Keyring").field("keys", &keys).field("docker", &self.docker).finish()
    }
}

impl Keyring {
    /// Creates a keyring without credentials.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds docker's configuration of this machine, which applies after all pull secrets.
    #[must_use]
    pub fn with_docker_config(mut self, docker: Option<Arc<DockerConfig>>) -> Self {
        self.docker = docker;
        self
    }

    /// Adds the content of a pull secret's key `.dockerconfigjson`. Credential helpers in it are ignored: a pull
    /// secret must not start programs.
    pub fn add_docker_config_json(&mut self, content: &[u8]) -> Result<(), CredentialError> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            auths: IndexMap<String, AuthEntry>,
        }
        let file: File = parse(".dockerconfigjson", content)?;
        self.add(".dockerconfigjson", file.auths)
    }

    /// Adds the content of a pull secret's key `.dockercfg`, the older format.
    pub fn add_docker_cfg(&mut self, content: &[u8]) -> Result<(), CredentialError> {
        let auths = parse(".dockercfg", content)?;
        self.add(".dockercfg", auths)
    }

    fn add(&mut self, subject: &str, auths: IndexMap<String, AuthEntry>) -> Result<(), CredentialError> {
        self.entries.extend(entries(subject, auths)?);
        // A longer path comes before its prefix, and a name before a glob; secrets of one key keep their order.
        self.entries.order_by(|(one, _), (two, _)| two.key.cmp(&one.key));
        Ok(())
    }

    /// The credentials for `HOST[:PORT]/REPOSITORY`; Docker Hub is `docker.io`.
    pub(super) async fn lookup(&self, target: &str) -> FoundCredentials {
        let mut found =
            FoundCredentials { credentials: matching(&self.entries, target), problems: Vec::new() };
        if let Some(docker) = &self.docker {
            let more = docker.lookup(target).await;
            found.credentials.extend(more.credentials);
            found.problems.extend(more.problems);
        }
        let mut distinct: Vec<Credential> = Vec::new();
        for credential in found.credentials {
            if !distinct.contains(&credential) {
                distinct.push(credential);
            }
        }
        found.credentials = distinct;
        found
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

    use super::*;
    use base64::Engine as _;

    use crate::registry::auth_entries::{ENTRIES, glob_matches};

    /// IMG-6: keys match as Kubernetes documents it for pull secrets.
    #[test]
    fn keys_match_hosts_ports_paths_and_globs() {
        let table = [
            ("a.io", "a.io/x", true),
            ("https://a.io", "a.io/x", true),
            ("http://a.io/v2/", "a.io/x", true),
            ("a.io:5000", "a.io/x", false),
            ("a.io", "a.io:5000/x", false),
            ("a.io:5000", "a.io:5000/x", true),
            ("*.a.io", "b.a.io/x", true),
            ("*.a.io", "a.io/x", false),
            ("*.a.io", "c.b.a.io/x", false),
            ("*.*.io", "b.a.io/x", true),
            ("pre*.a.io", "prefix.a.io/x", true),
            ("b?.a.io", "b1.a.io/x", true),
            ("b[0-9].a.io", "b1.a.io/x", true),
            ("b[^0-9].a.io", "b1.a.io/x", false),
            ("b[0-9.a.io", "b1.a.io/x", false),
            ("b\\1.a.io", "b1.a.io/x", true),
            ("*", "localhost/x", true),
            ("*", "a.io/x", false),
            ("a.io/team", "a.io/team/x", true),
            ("a.io/team", "a.io/other/x", false),
            ("https://index.docker.io/v1/", "docker.io/library/nginx", true),
            ("index.docker.io", "docker.io/library/nginx", true),
            ("docker.io/me", "docker.io/library/nginx", false),
            ("", "a.io/x", false),
        ];
        for (key, target, expect) in table {
            assert_eq!(ImagePattern::new(key).matches(target), expect, "{key} {target}");
        }
        // SEC-2: stars are no work without end.
        let glob = "*a".repeat(2000);
        assert!(!glob_matches(&glob, &"a".repeat(1999)));
    }

    /// IMG-6: the most specific credential comes first, over all secrets, and each once.
    #[tokio::test]
    async fn the_most_specific_credential_comes_first() {
        let mut keyring = Keyring::new();
        let (padded, plain) = (STANDARD.encode("b:2"), STANDARD_NO_PAD.encode("c:3:4"));
        let first = format!(
            r#"{{"auths":{{"*.io":{{"username":"glob","password":"1"}},"a.io":{{"auth":"{padded}"}},"z.io":{{}}}},
                "credsStore":"evil","credHelpers":{{"a.io":"evil"}}}}"#
        );
        keyring.add_docker_config_json(first.as_bytes()).unwrap();
        let second = format!(
            r#"{{"a.io/team":{{"auth":"{plain}","email":"x"}},"https://a.io":{{"auth":"{padded}"}}}}"#
        );
        keyring.add_docker_cfg(second.as_bytes()).unwrap();
        assert_eq!(keyring.lookup("a.io/team/x").await.users(), ["c:3:4", "b:2", "glob:1"]);
        assert_eq!(keyring.lookup("a.io/x").await.users(), ["b:2", "glob:1"]);
        assert_eq!(keyring.lookup("z.io/x").await.users(), ["glob:1"]);
        assert_eq!(keyring.lookup("z.com/x").await.users(), [""; 0]);
    }

    /// IMG-6, SEC-2: a secret with defects is refused, and the message has nothing of its content.
    #[test]
    fn defects_are_reported_without_the_content() {
        let hidden = STANDARD.encode("sesame");
        let table = [
            ("sesame".to_owned(), "invalid at line 1 column 1"),
            (r#"{"auths":["sesame"]}"#.to_owned(), "invalid at line 1"),
            (r#"{"auths":{"a.io":{"password":{"sesame":1}}}}"#.to_owned(), "invalid at line 1"),
            (
                r#"{"auths":{"a.io":{"auth":"sesame!"}}}"#.to_owned(),
                "entry \"a.io\": the field auth is not base64",
            ),
            (
                format!(r#"{{"auths":{{"a.io":{{"auth":"{hidden}"}}}}}}"#),
                "is not USERNAME:PASSWORD in base64",
            ),
        ];
        for (secret, expect) in table {
            let error = Keyring::new().add_docker_config_json(secret.as_bytes()).unwrap_err().to_string();
            assert!(
                error.contains(expect) && !error.contains("sesame") && !error.contains(&hidden),
                "{error}"
            );
        }
        let many: Vec<String> = (0..=ENTRIES).map(|n| format!(r#""{n}.io":{{}}"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        assert!(
            Keyring::new().add_docker_cfg(many.as_bytes()).unwrap_err().to_string().contains("more than")
        );
    }
}
