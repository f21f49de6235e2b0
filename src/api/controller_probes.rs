//! Who works in this cluster and tells how: registered here by those who start it, found here by whoever looks (CON-19).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Api;
use crate::controller_status::{ControllerProbe, ControllerState, ControllerStatus, ProbeName, ProbeSource};

/// Those who work by their names; those that do not run are known by name alone.
#[derive(Default)]
pub(crate) struct Probes {
    // Held for single map operations.
    single: Mutex<BTreeMap<ProbeName, Option<Weak<dyn ControllerProbe>>>>,
    // Held for a copy.
    sources: Mutex<Vec<Weak<dyn ProbeSource>>>,
}

impl Probes {
    fn sources(&self) -> Vec<Arc<dyn ProbeSource>> {
        self.sources.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Api {
    /// Controllers of these names are there, whether or not they run.
    pub fn expect_controllers(&self, names: impl IntoIterator<Item = &'static str>) {
        let mut probes = self.inner.probes.single.lock();
        for name in names {
            probes.entry(name.into()).or_default();
        }
    }

    /// A controller of this name runs from now on, for as long as its probe is kept.
    pub fn controller_runs(&self, name: &'static str, probe: &Arc<dyn ControllerProbe>) {
        self.inner.probes.single.lock().insert(name.into(), Some(Arc::downgrade(probe)));
    }

    /// There are those that this tells of, for as long as it is kept.
    pub fn add_controllers(&self, source: &Arc<dyn ProbeSource>) {
        let mut sources = self.inner.probes.sources.lock();
        sources.retain(|known| known.strong_count() > 0);
        sources.push(Arc::downgrade(source));
    }

    /// Every controller with a probe of its own by its name; none for one that does not run.
    pub fn controllers(&self) -> Vec<(ProbeName, Option<Arc<dyn ControllerProbe>>)> {
        let probes = self.inner.probes.single.lock();
        probes.iter().map(|(name, probe)| (name.clone(), probe.as_ref().and_then(Weak::upgrade))).collect()
    }

    /// How everybody works now, by name; none for one that does not run.
    pub fn controller_statuses(&self) -> BTreeMap<ProbeName, Option<ControllerStatus>> {
        let single =
            self.controllers().into_iter().map(|(name, probe)| (name, probe.map(|one| one.status())));
        let mut all = BTreeMap::new();
        for source in self.inner.probes.sources() {
            for (name, status) in source.statuses() {
                // One source may know of one that another runs.
                let known: &mut Option<ControllerStatus> = all.entry(name).or_default();
                *known = known.take().or(status);
            }
        }
        all.extend(single);
        // What is told of one that has stopped is its name alone.
        for status in all.values_mut() {
            *status = status.take().filter(|status| status.state != ControllerState::Stopped);
        }
        all
    }

    /// The controller of this name; none where there is no such, and in it none for one that does not run.
    pub fn controller(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>> {
        if let Some(probe) = self.inner.probes.single.lock().get(name) {
            return Some(probe.as_ref().and_then(Weak::upgrade));
        }
        let found = self.inner.probes.sources().into_iter().filter_map(|source| source.find(name));
        found.reduce(Option::or)
    }
}
