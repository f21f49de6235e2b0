//! Selects the credentials for an image, as Kubernetes' credential provider does (IMG-6): from pull secrets, then from
//! docker's configuration on this machine.
//!
//! A key of `auths` is `[https://]HOST[:PORT][/PATH]`. Each part of the host may be a glob, the port must be equal, and
//! the path is a prefix of the repository. All matching credentials are tried, the most specific first.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use indexmap::IndexMap;
use serde::Deserialize;

use super::credential::{Credential, CredentialError, SecretText};
use super::docker_config::DockerConfig;

/// The maximum number of credentials of one pull secret or file.
const ENTRIES: usize = 1000;

/// Base64 with or without padding, as docker's own programs wrote it over time.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The credentials that apply to a pod, or to a user of this machine.
#[derive(Clone, Default)]
pub struct Keyring {
    /// In the order in which they are tried.
    entries: Vec<(ImagePattern, Credential)>,
    docker: Option<Arc<DockerConfig>>,
}

/// The credentials for one repository.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundCredentials {
    /// In the order in which they are tried.
    pub(super) credentials: Vec<Credential>,
    /// The sources that failed; reported if authorization fails.
    pub(super) problems: Vec<CredentialError>,
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
        self.entries.sort_by(|(one, _), (two, _)| two.key.cmp(&one.key));
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

/// The matching credentials, in order.
pub(super) fn matching(entries: &[(ImagePattern, Credential)], target: &str) -> Vec<Credential> {
    let matching = entries.iter().filter(|(pattern, _)| pattern.matches(target));
    matching.map(|(_, credential)| credential.clone()).collect()
}

/// One value of `auths`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    #[serde(rename = "identitytoken")]
    identity_token: Option<String>,
    #[serde(rename = "registrytoken")]
    registry_token: Option<String>,
}

/// Reads docker's JSON. Serde's messages may quote values, so only the position is reported.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(
    subject: &str,
    content: &[u8],
) -> Result<T, CredentialError> {
    serde_json::from_slice(content).map_err(|error| CredentialError::Format {
        subject: subject.to_owned(),
        reason: format!("invalid at line {} column {}", error.line(), error.column()),
    })
}

/// The credentials of `auths`; entries without any are left out.
pub(super) fn entries(
    subject: &str,
    auths: IndexMap<String, AuthEntry>,
) -> Result<Vec<(ImagePattern, Credential)>, CredentialError> {
    let fault = |reason: String| CredentialError::Format { subject: subject.to_owned(), reason };
    if auths.len() > ENTRIES {
        return Err(fault(format!("more than {ENTRIES} entries")));
    }
    let mut entries = Vec::new();
    for (key, entry) in auths {
        let credential = entry.credential().map_err(|reason| {
            fault(format!("entry {}: {reason}", base::quote::quote(&super::error::shown_text(&key, 100))))
        })?;
        if let Some(credential) = credential {
            entries.push((ImagePattern::new(&key), credential));
        }
    }
    Ok(entries)
}

impl AuthEntry {
    fn credential(self) -> Result<Option<Credential>, &'static str> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        if let Some(token) = filled(self.registry_token) {
            return Ok(Some(Credential::RegistryToken(SecretText::new(token))));
        }
        if let Some(token) = filled(self.identity_token) {
            return Ok(Some(Credential::IdentityToken(SecretText::new(token))));
        }
        let (username, password) = match filled(self.auth) {
            None => (self.username, self.password),
            Some(auth) => {
                let bytes = BASE64.decode(auth.trim()).map_err(|_| "the field auth is not base64")?;
                let text = String::from_utf8(bytes).map_err(|_| "the field auth is not UTF-8")?;
                let (username, password) =
                    text.split_once(':').ok_or("the field auth is not USERNAME:PASSWORD in base64")?;
                (Some(username.to_owned()), Some(password.trim_end_matches('\0').to_owned()))
            }
        };
        Ok(filled(username).map(|username| Credential::Password {
            username,
            password: SecretText::new(password.unwrap_or_default()),
        }))
    }
}

/// The images that a credential is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImagePattern {
    /// `HOST[:PORT][/PATH]`, without a scheme; Docker Hub is `docker.io`.
    key: String,
}

impl ImagePattern {
    pub(super) fn new(text: &str) -> Self {
        let text = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let host = match host {
            "index.docker.io" | "registry-1.docker.io" => "docker.io",
            host => host,
        };
        // `/v1/` and `/v2/` are parts of the protocol.
        let path = match path {
            "v1" | "v2" => "",
            path => path.strip_prefix("v1/").or_else(|| path.strip_prefix("v2/")).unwrap_or(path),
        };
        let key = if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") };
        Self { key }
    }

    /// Returns true if the credential is for `HOST[:PORT]/REPOSITORY`.
    pub(super) fn matches(&self, target: &str) -> bool {
        fn parts(text: &str) -> (&str, &str, &str) {
            let (authority, path) = text.split_once('/').unwrap_or((text, ""));
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            (host, port, path)
        }
        let ((host, port, path), (target_host, target_port, repository)) = (parts(&self.key), parts(target));
        port == target_port
            && repository.starts_with(path)
            && host.split('.').count() == target_host.split('.').count()
            && host.split('.').zip(target_host.split('.')).all(|(glob, part)| glob_matches(glob, part))
    }
}

/// Returns true if a text matches a glob with `*`, `?`, `[a-z]`, `[^a-z]` and `\`; one that is malformed matches
/// nothing. Takes time at most proportional to the product of both lengths.
fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut at, mut position) = (0, 0);
    // The glob after the last star, and the text that it was tried on.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if glob.get(at) == Some(&'*') {
            star = Some((at + 1, position));
            at += 1;
            continue;
        }
        if at == glob.len() && position == text.len() {
            return true;
        }
        let step = text.get(position).and_then(|c| match_one(&glob[at..], *c));
        if let Some(length) = step {
            (at, position) = (at + length, position + 1);
            continue;
        }
        match star {
            Some((after, begin)) if begin < text.len() => {
                star = Some((after, begin + 1));
                (at, position) = (after, begin + 1);
            }
            _ => return false,
        }
    }
}

/// Matches one character with the first term of a glob; returns the term's length.
fn match_one(glob: &[char], c: char) -> Option<usize> {
    match glob {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == c).then_some(2),
        ['[', rest @ ..] => {
            let (is_negated, ranges) = match rest {
                ['^', ranges @ ..] => (true, ranges),
                ranges => (false, ranges),
            };
            let end = ranges.iter().position(|c| *c == ']').filter(|end| *end > 0)?;
            let mut is_member = false;
            let mut inside = &ranges[..end];
            while let [first, more @ ..] = inside {
                let (last, more) = match more {
                    ['-', last, more @ ..] => (last, more),
                    more => (first, more),
                };
                is_member |= (*first..=*last).contains(&c);
                inside = more;
            }
            (is_member != is_negated).then_some(glob.len() - ranges.len() + end + 1)
        }
        [first, ..] => (*first == c).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

    use super::*;

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

    fn users(found: &FoundCredentials) -> Vec<String> {
        let user = |credential: &Credential| match credential {
            Credential::Password { username, password } => format!("{username}:{}", password.reveal()),
            Credential::IdentityToken(token) => format!("identity {}", token.reveal()),
            Credential::RegistryToken(token) => format!("registry {}", token.reveal()),
        };
        found.credentials.iter().map(user).collect()
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
        assert_eq!(users(&keyring.lookup("a.io/team/x").await), ["c:3:4", "b:2", "glob:1"]);
        assert_eq!(users(&keyring.lookup("a.io/x").await), ["b:2", "glob:1"]);
        assert_eq!(users(&keyring.lookup("z.io/x").await), ["glob:1"]);
        assert_eq!(users(&keyring.lookup("z.com/x").await), [""; 0]);
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
        let many: String = (0..=ENTRIES).map(|n| format!(r#""{n}.io":{{}},"#)).collect();
        let many = format!("{{{}}}", many.trim_end_matches(','));
        assert!(
            Keyring::new().add_docker_cfg(many.as_bytes()).unwrap_err().to_string().contains("more than")
        );
    }
}
