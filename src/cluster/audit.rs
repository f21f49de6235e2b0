//! The configuration of the audit log, by flags or the config file: its file and policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::StartError;
use api::Api;
use apiserver::audit::{AuditFile, AuditLog, AuditPolicy};

/// Standard output.
const STDOUT: &str = "-";
/// The default size of a log file, as in Kubernetes; ten backups are retained, so that the disk does not fill up.
const MAX_SIZE_MEGABYTES: u64 = 100;
const MAX_BACKUPS: usize = 10;

/// The settings of the audit log: its file, its rotation, and the policy that selects requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AuditConfig {
    /// The file, or `-` for standard output; `None` means no log.
    pub log_path: Option<PathBuf>,
    /// A `Policy` of `audit.k8s.io/v1`; `None` means that the metadata of every request is logged.
    pub policy_file: Option<PathBuf>,
    /// A file that would exceed this size is rotated; 0 means the default.
    pub max_size_megabytes: u64,
    /// The number of retained backups; 0 means all.
    pub max_backups: usize,
    /// The age in days after which backups are removed; 0 means never.
    pub max_age_days: u32,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            log_path: None,
            policy_file: None,
            max_size_megabytes: MAX_SIZE_MEGABYTES,
            max_backups: MAX_BACKUPS,
            max_age_days: 0,
        }
    }
}

impl AuditConfig {
    /// Returns true if the log goes to standard output, the terminal that a console may use.
    pub fn is_on_screen(&self) -> bool {
        self.log_path.as_deref() == Some(Path::new(STDOUT))
    }

    /// Opens the log, if one is configured.
    pub(super) fn start(&self, api: &Api) -> Result<Option<AuditLog>, StartError> {
        let Some(path) = &self.log_path else {
            return match &self.policy_file {
                None => Ok(None),
                Some(_) => Err(StartError::Audit {
                    subject: "cannot use the policy".into(),
                    reason: "no log file; set one with --audit-log-path".into(),
                }),
            };
        };
        let policy = match &self.policy_file {
            None => AuditPolicy::default(),
            Some(file) => {
                let failed =
                    |reason: String| StartError::Audit { subject: file.display().to_string(), reason };
                let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
                AuditPolicy::read(&text).map_err(|error| failed(error.to_string()))?
            }
        };
        let megabytes = match self.max_size_megabytes {
            0 => MAX_SIZE_MEGABYTES,
            megabytes => megabytes,
        };
        let to = AuditFile {
            path: (!self.is_on_screen()).then(|| path.clone()),
            max_bytes: megabytes.saturating_mul(1 << 20),
            max_backups: self.max_backups,
            max_age: Duration::from_hours(24) * self.max_age_days,
        };
        let log = AuditLog::start(api, policy, to).map_err(|error| StartError::Audit {
            subject: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Some(log))
    }
}
