//! The labels of a namespace: a level and the version that defines it, for refusals, audit annotations and
//! warnings.

use std::collections::BTreeMap;
use std::fmt;

use apimachinery::validate::{FieldErrors, Path};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";

/// The privileges that a pod may have, from all to the fewest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.name() == text)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The Kubernetes version whose definition of a level applies; versions differ in their checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// `v1.N`.
    Minor(u64),
    #[default]
    Latest,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_plain =
            minor.bytes().all(|b| b.is_ascii_digit()) && (minor.len() == 1 || !minor.starts_with('0'));
        minor.parse().ok().filter(|_| is_plain).map(Self::Minor)
    }
}

/// A level as one version of Kubernetes defines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Latest => write!(f, "{}:latest", self.level.name()),
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
        }
    }
}

/// A label that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelError {
    label: &'static str,
    value: String,
    detail: &'static str,
}

impl LabelError {
    pub(super) fn report(&self, errors: &mut FieldErrors) {
        let labels = Path::root("metadata");
        let labels = labels.child("labels");
        errors.invalid(&labels.key(self.label), &self.value, self.detail);
    }
}

/// The policy of a namespace's labels; by default without restrictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    /// Violations are refused.
    pub(super) enforce: LevelVersion,
    /// Violations are recorded in the audit log.
    pub(super) audit: LevelVersion,
    /// Violations cause warnings.
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// Returns true if the policy restricts nothing.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|of| of.level == Level::Privileged)
    }

    /// Reads labels. Invalid ones count as in Kubernetes: an invalid level to enforce counts as restricted, an invalid
    /// one for audit or warnings as privileged.
    pub(super) fn of(labels: Option<&BTreeMap<String, String>>) -> (Self, Vec<LabelError>) {
        let (mut policy, mut faults) = (Self::default(), Vec::new());
        let Some(labels) = labels else { return (policy, faults) };
        let mut read = Reader { labels, faults: &mut faults };
        let enforce = read.level(ENFORCE, Level::Restricted);
        policy.enforce.level = enforce.unwrap_or_default().level();
        policy.enforce.version = read.version(ENFORCE_VERSION).unwrap_or_default();
        policy.audit.level = read.level(AUDIT, Level::Privileged).unwrap_or_default().level();
        policy.audit.version = read.version(AUDIT_VERSION).unwrap_or_default();
        let warn = read.level(WARN, Level::Privileged);
        let warn_version = read.version(WARN_VERSION);
        policy.warn = match (warn, enforce) {
            (Some(warn), _) => {
                LevelVersion { level: warn.level(), version: warn_version.unwrap_or_default() }
            }
            // Workloads whose pods would be refused cause a warning, unless the namespace sets another level.
            (None, Some(ParsedLevel::Level(level))) => {
                LevelVersion { level, version: warn_version.unwrap_or(policy.enforce.version) }
            }
            (None, _) => {
                LevelVersion { version: warn_version.unwrap_or_default(), ..LevelVersion::default() }
            }
        };
        (policy, faults)
    }
}

/// The value of a level's label.
#[derive(Clone, Copy, Debug)]
enum ParsedLevel {
    Level(Level),
    /// The label is invalid; this level applies instead.
    Invalid(Level),
}

impl Default for ParsedLevel {
    fn default() -> Self {
        Self::Level(Level::default())
    }
}

impl ParsedLevel {
    fn level(self) -> Level {
        let (Self::Level(level) | Self::Invalid(level)) = self;
        level
    }
}

struct Reader<'a> {
    labels: &'a BTreeMap<String, String>,
    faults: &'a mut Vec<LabelError>,
}

impl Reader<'_> {
    fn level(&mut self, label: &'static str, otherwise: Level) -> Option<ParsedLevel> {
        let value = self.labels.get(label)?;
        let read = Level::parse(value).map(ParsedLevel::Level);
        Some(read.unwrap_or_else(|| {
            self.fault(label, value.clone(), "must be one of privileged, baseline, restricted");
            ParsedLevel::Invalid(otherwise)
        }))
    }

    fn version(&mut self, label: &'static str) -> Option<Version> {
        let value = self.labels.get(label)?;
        Some(Version::parse(value).unwrap_or_else(|| {
            self.fault(label, value.clone(), "must be \"latest\" or \"v1.x\"");
            Version::Latest
        }))
    }

    fn fault(&mut self, label: &'static str, value: String, detail: &'static str) {
        self.faults.push(LabelError { label, value, detail });
    }
}
