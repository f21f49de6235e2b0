//! The priority levels and flow schemas that every cluster has: created at the start, and restored to
//! Kubernetes' values.

use crate::{Api, ApiError, Part, WriteOptions};
use kinds::default_flows::{AUTO_UPDATE, DEFAULTS, is_mandatory};
use object::{Key, Object, TypedKind};

impl Api {
    /// Creates the default levels and schemas, and restores their specs.
    pub fn reconcile_flow_control(&self) -> Result<(), ApiError> {
        DEFAULTS.levels.iter().try_for_each(|level| self.keep(level))?;
        DEFAULTS.schemas.iter().try_for_each(|schema| self.keep(schema))
    }

    fn keep<T: TypedKind>(&self, desired: &T) -> Result<(), ApiError> {
        let key = Key::of(desired.metadata());
        let Ok(there) = self.get(T::kind(), &key) else { return self.create_as(desired.clone()).map(drop) };
        let annotations = there.meta().annotations.as_ref();
        let automatic = annotations.and_then(|annotations| annotations.get(AUTO_UPDATE));
        let desired = Object::new(desired.clone());
        if there.same_spec(&desired)
            || is_mandatory(desired.name())
            || automatic.is_none_or(|text| text != "true")
        {
            return Ok(());
        }
        let mut changed = Object::clone(&there);
        changed.copy_spec_from(&desired);
        self.update(&changed, Part::Main, &WriteOptions::default()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration;

    use super::*;
    use crate::test_api::api;
    use object::Kind;

    #[tokio::test(start_paused = true)]
    async fn a_start_gives_back_what_was_changed_unless_its_owner_says_otherwise_api_17() {
        let api = api(&[]);
        api.reconcile_flow_control().unwrap();
        let shares = |name: &str| {
            let level = api.get_as::<PriorityLevelConfiguration>(&Key::new("", name)).unwrap();
            level.spec.limited.as_ref().and_then(|limited| limited.nominal_concurrency_shares)
        };
        let change = |name: &str, automatic: &str| {
            let changed = api.modify::<PriorityLevelConfiguration>(&Key::new("", name), |level| {
                let annotations = level.metadata.annotations.get_or_insert_default();
                annotations.insert(AUTO_UPDATE.into(), automatic.into());
                level.spec.limited.as_mut().unwrap().nominal_concurrency_shares = Some(7);
                Ok(())
            });
            changed.map(drop).map_err(|error| error.to_string())
        };
        change("system", "true").unwrap();
        change("node-high", "false").unwrap();
        assert!(change("catch-all", "true").unwrap_err().contains("must equal the fixed value"));
        api.delete(
            Kind::PriorityLevelConfiguration,
            &Key::new("", "exempt"),
            &crate::DeleteOptions::default(),
        )
        .unwrap();
        api.reconcile_flow_control().unwrap();
        assert_eq!(
            (shares("system"), shares("node-high"), shares("catch-all")),
            (Some(30), Some(7), Some(5))
        );
        assert!(api.get(Kind::PriorityLevelConfiguration, &Key::new("", "exempt")).is_ok());
    }
}
