//! The drills that ship with Podium (FAULT-2): scenarios to learn from, in `sample-manifests/drills`.

/// A drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drill {
    /// The name of the drill and of its Scenario.
    pub name: &'static str,
    /// Its manifest: one Scenario.
    pub text: &'static str,
}

macro_rules! drills {
    ($($name:literal),* $(,)?) => {
        /// All drills, the easier ones first.
        pub const DRILLS: &[Drill] = &[$(Drill {
            name: $name,
            text: include_str!(concat!("../../sample-manifests/drills/", $name, ".yaml")),
        }),*];
    };
}

drills![
    "stuck-rollout", "crash-loop", "quota-exhausted", "dns-gone", "budget-deadlock", "certificate-expired",
    "node-lost", "zone-lost", "disk-full", "leader-paused",
];

impl Drill {
    /// Returns the drill of this name.
    pub fn named(name: &str) -> Option<Self> {
        DRILLS.iter().copied().find(|drill| drill.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_yaml;

    #[test]
    fn every_drill_teaches_with_hints_and_a_verdict_fault_2() {
        assert_eq!(DRILLS.len(), 10);
        for drill in DRILLS {
            let value = from_yaml(drill.text).unwrap_or_else(|error| panic!("{}: {error}", drill.name));
            assert_eq!(value["metadata"]["name"], drill.name);
            assert_eq!(value["kind"], "Scenario");
            let spec = &value["spec"];
            assert!(spec["hints"].as_array().unwrap().len() >= 3, "{}", drill.name);
            for field in ["/title", "/briefing", "/verdict/passed", "/verdict/failed"] {
                assert!(spec.pointer(field).unwrap().as_str().unwrap().len() > 8, "{}: {field}", drill.name);
            }
        }
        assert_eq!(Drill::named("node-lost").unwrap().name, "node-lost");
        assert_eq!(Drill::named("nothing"), None);
    }
}
