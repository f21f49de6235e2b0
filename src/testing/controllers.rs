//! Chooses the cluster's controllers that run beside the one under test.

use std::collections::BTreeSet;

use controllers::Controllers as Registry;

use super::error::Error;
use cluster::UnknownComponent;

const SCHEDULER: &str = "scheduler";
/// The controller that always runs, since no definition is established without it. In Kubernetes it is a part of the
/// API server.
const ALWAYS: &str = "customresourcedefinition";
/// The controller that creates the service accounts which [`ACCOUNT_ADMISSION`] requires of pods.
const ACCOUNTS: &str = "serviceaccount";
const ACCOUNT_ADMISSION: &str = "ServiceAccount";

/// The controllers that run, by their names in kube-controller-manager, and the scheduler, by the name `scheduler`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// All controllers of a cluster, and the scheduler.
    #[default]
    All,
    /// None: an API server alone, as in envtest. Garbage is not collected, and deleted namespaces never disappear.
    None,
    /// Only these.
    Only(Vec<String>),
    /// All except these.
    Except(Vec<String>),
}

impl Controllers {
    /// Only these.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Only(names.into_iter().map(Into::into).collect())
    }

    /// All except these.
    pub fn except<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Except(names.into_iter().map(Into::into).collect())
    }

    /// Returns every valid name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Registry::names().chain([SCHEDULER])
    }

    /// Returns the names to disable for this choice.
    pub(super) fn disabled(&self) -> Result<Vec<String>, Error> {
        let named = match self {
            Self::All | Self::None => &[][..],
            Self::Only(names) | Self::Except(names) => names,
        };
        if let Some(unknown) = named.iter().find(|name| !Self::names().any(|known| known == name.as_str())) {
            let known = Self::names().map(ToString::to_string).collect();
            let error = UnknownComponent { name: unknown.clone(), components: known };
            return Err(Error::Component(error.to_string()));
        }
        let named: BTreeSet<&str> = named.iter().map(String::as_str).collect();
        let runs = |name: &str| match self {
            Self::All => true,
            Self::None => name == ALWAYS,
            Self::Only(_) => name == ALWAYS || named.contains(name),
            Self::Except(_) => !named.contains(name),
        };
        let mut disabled: Vec<String> =
            Self::names().filter(|name| !runs(name)).map(ToString::to_string).collect();
        if !runs(ACCOUNTS) {
            // Without its controller, the admission plugin would refuse every pod.
            disabled.push(ACCOUNT_ADMISSION.into());
        }
        Ok(disabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_by_name_api_20() {
        let runs = |chosen: &Controllers| {
            let disabled = chosen.disabled().unwrap();
            Controllers::names().filter(|name| !disabled.iter().any(|d| d == name)).collect::<Vec<_>>()
        };
        assert_eq!(runs(&Controllers::All), Controllers::names().collect::<Vec<_>>());
        assert_eq!(runs(&Controllers::None), ["customresourcedefinition"]);
        let chosen = Controllers::only(["deployment", "scheduler"]);
        assert_eq!(runs(&chosen), ["deployment", "customresourcedefinition", "scheduler"]);
        assert!(chosen.disabled().unwrap().contains(&"ServiceAccount".to_string()));
        let but = Controllers::except(["podgc"]);
        assert_eq!(but.disabled().unwrap(), ["podgc"]);
        let wrong = Controllers::only(["deployments"]).disabled().unwrap_err().to_string();
        assert!(wrong.contains("no component \"deployments\", did you mean deployment?"), "{wrong}");
    }
}
