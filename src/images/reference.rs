//! Image references: `[registry/]repository[:tag][@digest]`, read as container tools read them.
//!
//! Pure text; the catalogue decides if the image exists.

use std::fmt;

/// A parsed image reference, in its short ("familiar") form: `docker.io/library/` is left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageReference {
    /// The registry, if another than Docker Hub is named (`registry.k8s.io`, `localhost:5000`).
    pub registry: Option<String>,
    /// The repository's path without the registry (`nginx`, `curlimages/curl`).
    pub repository: String,
    /// The tag; `latest` without tag and digest.
    pub tag: Option<String>,
    /// The digest, `sha256:HEX`.
    pub digest: Option<String>,
}

/// The reason why a text is not an image reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    /// It does not follow the grammar.
    #[error("invalid reference format")]
    Format,
    /// The repository has capital letters.
    #[error("invalid reference format: repository name must be lowercase")]
    Uppercase,
    /// The repository's name is longer than 255 characters.
    #[error("repository name must not be more than 255 characters")]
    TooLong,
    /// The digest is of an unknown kind or length.
    #[error("invalid checksum digest length")]
    Digest,
}

impl ImageReference {
    /// Reads a reference as the user wrote it.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        let (name_and_tag, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(check_digest(digest)?)),
            None => (text, None),
        };
        // A colon after the last slash starts the tag; one before it belongs to the registry's port.
        let last_component = name_and_tag.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name_and_tag[last_component..].find(':') {
            Some(colon) => {
                let (name, tag) = name_and_tag.split_at(last_component + colon);
                (name, Some(check_tag(&tag[1..])?))
            }
            None => (name_and_tag, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => (Some(check_registry(first)?), rest),
            _ => (None, name),
        };
        check_repository(repository)?;
        let hub = registry.as_deref().is_none_or(|name| name == "docker.io" || name == "index.docker.io");
        let registry = if hub { None } else { registry };
        let repository =
            if hub { repository.strip_prefix("library/").unwrap_or(repository) } else { repository };
        let tag = tag.or_else(|| digest.is_none().then(|| "latest".to_owned()));
        Ok(Self { registry, repository: repository.to_owned(), tag, digest })
    }

    /// Registry and repository without tag and digest: `nginx`, `registry.k8s.io/pause`.
    pub fn name(&self) -> String {
        match &self.registry {
            Some(registry) => format!("{registry}/{}", self.repository),
            None => self.repository.clone(),
        }
    }

    /// The registry's host, and its port if the name has one.
    pub fn registry_host(&self) -> &str {
        self.registry.as_deref().unwrap_or("docker.io")
    }

    /// The repository as its registry names it: `library/nginx`.
    pub fn full_repository(&self) -> String {
        match &self.registry {
            None if !self.repository.contains('/') => format!("library/{}", self.repository),
            _ => self.repository.clone(),
        }
    }

    /// The complete form: `docker.io/library/nginx:latest`.
    pub fn full_name(&self) -> String {
        format!("{}/{}{}", self.registry_host(), self.full_repository(), self.suffix())
    }

    /// The tag and the digest with their separators.
    fn suffix(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!(":{tag}"));
        let digest = self.digest.as_ref().map(|digest| format!("@{digest}"));
        tag.into_iter().chain(digest).collect()
    }

    /// The repository's last component: `curl` of `curlimages/curl`.
    pub fn base_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name(), self.suffix())
    }
}

/// The first component is a registry when it could not be part of a Docker Hub name.
fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn check_registry(text: &str) -> Result<String, InvalidReference> {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let label_is_good = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let port_is_good =
        port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if host.split('.').all(label_is_good) && port_is_good {
        Ok(text.to_owned())
    } else {
        Err(InvalidReference::Format)
    }
}

/// Lowercase letters and digits, joined by one `.`, one or two `_`, or any number of `-`.
fn check_repository(text: &str) -> Result<(), InvalidReference> {
    let component_is_good = |component: &str| {
        let separator_is_good = |separator: &str| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        };
        component.starts_with(|first: char| first.is_ascii_alphanumeric())
            && component.ends_with(|last: char| last.is_ascii_alphanumeric())
            && component
                .split(|character: char| character.is_ascii_lowercase() || character.is_ascii_digit())
                .all(separator_is_good)
    };
    if text.len() > 255 {
        Err(InvalidReference::TooLong)
    } else if text.split('/').all(component_is_good) {
        Ok(())
    } else if text.to_ascii_lowercase().split('/').all(component_is_good) {
        Err(InvalidReference::Uppercase)
    } else {
        Err(InvalidReference::Format)
    }
}

fn check_tag(text: &str) -> Result<String, InvalidReference> {
    let rest_is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let good = !text.is_empty()
        && text.len() <= 128
        && !text.starts_with(['.', '-'])
        && text.bytes().all(rest_is_good);
    good.then(|| text.to_owned()).ok_or(InvalidReference::Format)
}

fn check_digest(text: &str) -> Result<String, InvalidReference> {
    let (algorithm, hex) = text.split_once(':').ok_or(InvalidReference::Format)?;
    if !hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(InvalidReference::Format);
    }
    let length = match algorithm {
        "sha256" => 64,
        "sha512" => 128,
        _ => return Err(InvalidReference::Format),
    };
    if hex.len() == length { Ok(text.to_owned()) } else { Err(InvalidReference::Digest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-1: references as container tools write them.
    #[test]
    fn references_are_read_as_container_tools_read_them() {
        let sha = format!("sha256:{}", "a".repeat(64));
        let table = [
            ("nginx", "nginx:latest"),
            ("nginx:1.7.9", "nginx:1.7.9"),
            ("library/nginx:1.9.1", "nginx:1.9.1"),
            ("docker.io/library/nginx", "nginx:latest"),
            ("docker.io/nginxinc/nginx:x", "nginxinc/nginx:x"),
            ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("localhost/a", "localhost/a:latest"),
            ("my_repo/a__b-c.d", "my_repo/a__b-c.d:latest"),
            (&format!("nginx@{sha}"), &format!("nginx@{sha}")),
            (&format!("gcr.io/x/y:v1@{sha}"), &format!("gcr.io/x/y:v1@{sha}")),
        ];
        for (text, expect) in table {
            assert_eq!(ImageReference::parse(text).unwrap().to_string(), expect, "{text}");
        }
    }

    #[test]
    fn an_invalid_image_reference_gives_the_reason() {
        let table = [
            ("", InvalidReference::Format),
            (":latest", InvalidReference::Format),
            ("nginx:", InvalidReference::Format),
            ("nginx: 1", InvalidReference::Format),
            ("nginx:1:2", InvalidReference::Format),
            ("Nginx", InvalidReference::Uppercase),
            ("a/Nginx:1", InvalidReference::Uppercase),
            ("-nginx", InvalidReference::Format),
            ("a..b", InvalidReference::Format),
            ("a___b", InvalidReference::Format),
            ("a//b", InvalidReference::Format),
            ("nginx@sha256:12", InvalidReference::Digest),
            ("nginx@md5:12", InvalidReference::Format),
            ("https://nginx", InvalidReference::Format),
        ];
        for (text, expect) in table {
            assert_eq!(ImageReference::parse(text), Err(expect), "{text}");
        }
    }
}
