//! Profiles of permitted system calls, as the kubelet passes them to the host: the types of the OCI runtime
//! specification's `linux.seccomp`, with the conditions on capabilities that Docker's profiles have.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// The filter of a container's system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    /// None.
    #[default]
    Unconfined,
    /// The host's own profile: containerd's default.
    RuntimeDefault,
    /// A profile of the user's.
    Localhost {
        /// Its name, for messages.
        name: String,
        /// Its content.
        profile: Box<SeccompProfile>,
    },
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompProfile {
    /// The action for calls that no rule names.
    pub default_action: SeccompAction,
    /// The error number of that action, if it is `SCMP_ACT_ERRNO` or `SCMP_ACT_TRACE`.
    #[serde(default)]
    pub default_errno_ret: Option<u32>,
    /// Names of the kernel's flags for filters.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<SeccompFlag>,
    /// The rules.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub syscalls: Vec<SeccompRule>,
}

/// The action for certain system calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompRule {
    /// The calls; unknown names are ignored, because a profile may be for several processors.
    #[serde(deserialize_with = "null_is_empty")]
    pub names: Vec<String>,
    /// The action.
    pub action: SeccompAction,
    /// The error number of the action; EPERM if it is absent, as with runc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    /// Conditions that must all be true; of two conditions on the same argument, one must be.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<SeccompCondition>,
    /// The rule applies only where all of this is true.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "SeccompScope::is_empty")]
    pub includes: SeccompScope,
    /// The rule does not apply where any of this is true.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "SeccompScope::is_empty")]
    pub excludes: SeccompScope,
}

/// A condition on an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompCondition {
    /// The argument's number, from 0.
    pub index: u32,
    /// The value to compare with; the mask of `SCMP_CMP_MASKED_EQ`.
    pub value: u64,
    /// The value that the masked argument must have.
    #[serde(default)]
    pub value_two: u64,
    /// The comparison.
    pub op: SeccompOperator,
}

/// Circumstances under which a rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompScope {
    /// The container has these capabilities (`CAP_SYS_ADMIN`).
    #[serde(default, deserialize_with = "null_is_empty")]
    pub caps: Vec<String>,
    /// The processor is one of these (`amd64`).
    #[serde(default, deserialize_with = "null_is_empty")]
    pub arches: Vec<String>,
    /// The kernel is at least of this version (`4.8`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_kernel: Option<String>,
}

impl SeccompScope {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The answer to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the kernel's documentation describes its actions")]
pub enum SeccompAction {
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    #[serde(rename = "SCMP_ACT_TRACE")]
    Trace,
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    #[serde(rename = "SCMP_ACT_KILL", alias = "SCMP_ACT_KILL_THREAD")]
    KillThread,
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
}

/// A comparison of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SeccompOperator {
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    #[serde(rename = "SCMP_CMP_LE")]
    LessOrEqual,
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    #[serde(rename = "SCMP_CMP_GE")]
    GreaterOrEqual,
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

/// A flag of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeccompFlag {
    /// Applies to all threads: a container's process has one.
    #[serde(rename = "SECCOMP_FILTER_FLAG_TSYNC")]
    AllThreads,
    /// Logs every action but `SCMP_ACT_ALLOW`.
    #[serde(rename = "SECCOMP_FILTER_FLAG_LOG")]
    Log,
    /// Does not slow the program down against speculative execution.
    #[serde(rename = "SECCOMP_FILTER_FLAG_SPEC_ALLOW")]
    AllowSpeculation,
}

/// The highest error number of the kernel.
const MAX_ERRNO: u32 = 4095;
/// The number of arguments of a system call.
const ARGUMENTS: u32 = 6;

/// The reason why a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProfile(String);

impl fmt::Display for InvalidProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidProfile {}

impl SeccompProfile {
    /// Reads a profile in JSON, in the form of the OCI runtime specification. Unknown fields are ignored.
    pub fn from_json(text: &str) -> Result<Self, InvalidProfile> {
        let profile: Self = base::json::from_str(text).map_err(|error| InvalidProfile(error.to_string()))?;
        let numbers = profile.syscalls.iter().filter_map(|rule| rule.errno_ret);
        if let Some(number) = numbers.chain(profile.default_errno_ret).find(|number| *number > MAX_ERRNO) {
            return Err(InvalidProfile(format!("errnoRet {number} is no error number")));
        }
        let mut conditions = profile.syscalls.iter().flat_map(|rule| &rule.args);
        if let Some(condition) = conditions.find(|condition| condition.index >= ARGUMENTS) {
            let index = condition.index;
            return Err(InvalidProfile(format!("args: a system call has no argument with index {index}")));
        }
        Ok(profile)
    }

    /// A profile that answers every call with this error.
    #[cfg(target_os = "linux")]
    pub(crate) fn denying(errno: u32) -> Self {
        Self {
            default_action: SeccompAction::Errno,
            default_errno_ret: Some(errno),
            flags: Vec::new(),
            syscalls: Vec::new(),
        }
    }
}

impl SeccompRule {
    /// A rule that permits nothing yet.
    #[cfg(target_os = "linux")]
    pub(crate) fn allowing() -> Self {
        Self {
            names: Vec::new(),
            action: SeccompAction::Allow,
            errno_ret: None,
            args: Vec::new(),
            includes: SeccompScope::default(),
            excludes: SeccompScope::default(),
        }
    }
}

/// Profiles that programs write have `null` for empty lists.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-17: profiles are read as containerd and Docker write them, and each mistake is named.
    #[test]
    fn a_profile_is_read_or_its_mistake_is_named() {
        let written = r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "archMap": null,
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
            {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "args": null, "comment": "", "includes": {},
                "excludes": null},
            {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]},
                "args": [{"index": 0, "value": 4294967295, "op": "SCMP_CMP_EQ"}]}]}"#;
        let profile = SeccompProfile::from_json(written).unwrap();
        assert_eq!(profile.default_errno_ret, Some(38));
        assert_eq!(profile.syscalls[1].args[0].value, 0xffff_ffff);
        let again = serde_json::to_string(&profile).unwrap();
        assert_eq!(SeccompProfile::from_json(&again).unwrap(), profile);
        let refused = |text: &str| SeccompProfile::from_json(text).unwrap_err().to_string();
        for (text, expect) in [
            ("", "EOF while parsing a value"),
            ("{}", "missing field `defaultAction`"),
            (r#"{"defaultAction": "SCMP_ACT_NOTIFY"}"#, "unknown variant `SCMP_ACT_NOTIFY`"),
            (
                r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 5000}"#,
                "errnoRet 5000 is no error number",
            ),
            (
                r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["kill"], "action": "SCMP_ACT_KILL",
                    "args": [{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]}]}"#,
                "args: a system call has no argument with index 6",
            ),
            (r#"{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["X"]}"#, "unknown variant `X`"),
        ] {
            assert!(refused(text).contains(expect), "{}", refused(text));
        }
    }
}
