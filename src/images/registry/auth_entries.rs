//! The entries of docker's configuration and of pull secrets, and the images that each applies to (IMG-6).

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use indexmap::IndexMap;
use serde::Deserialize;

use super::credential::{Credential, CredentialError, SecretText};

/// The maximum number of credentials of one pull secret or file.
pub(super) const ENTRIES: usize = 1000;

/// Base64 with or without padding, as docker's own programs wrote it over time.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The credentials for one repository.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundCredentials {
    /// In the order in which they are tried.
    pub(super) credentials: Vec<Credential>,
    /// The sources that failed; reported if authorization fails.
    pub(super) problems: Vec<CredentialError>,
}

#[cfg(test)]
impl FoundCredentials {
    /// The credentials as texts.
    pub(super) fn users(&self) -> Vec<String> {
        let user = |credential: &Credential| match credential {
            Credential::Password { username, password } => format!("{username}:{}", password.reveal()),
            Credential::IdentityToken(token) => format!("identity {}", token.reveal()),
            Credential::RegistryToken(token) => format!("registry {}", token.reveal()),
        };
        self.credentials.iter().map(user).collect()
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
    pub(super) key: String,
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
pub(super) fn glob_matches(glob: &str, text: &str) -> bool {
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
