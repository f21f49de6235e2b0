//! Rules of `securityContext.sysctls` of a pod. The kubelet decides which sysctls a node allows.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::PodSpec;

use super::field::{FieldErrors, Path};
use object::sysctl::{self, MAX_LENGTH, Namespace};

/// The pattern of names that Kubernetes' error shows.
const PATTERN: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates the sysctls at this path, in a pod with this spec.
pub(super) fn sysctls(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let all = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    let mut seen = HashSet::new();
    for (i, sysctl) in all.enumerate() {
        let (path, name) = (path.index(i), sysctl.name.as_str());
        let path = path.child("name");
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        } else if !sysctl::is_name(name) {
            let text = format!("must have at most {MAX_LENGTH} characters and match regex {PATTERN}");
            errors.invalid(&path, name, text);
        } else if !seen.insert(name) {
            errors.duplicate(&path, name);
        }
        let (flag, shared) = match sysctl::namespace(&sysctl::dotted(name)) {
            Some(Namespace::Net) => ("hostNetwork", spec.host_network),
            Some(Namespace::Ipc) => ("hostIPC", spec.host_ipc),
            None => continue,
        };
        if shared == Some(true) {
            errors.invalid(&path, name, format!("may not be specified when '{flag}' is true"));
        }
    }
}
