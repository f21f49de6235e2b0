//! The registry of controllers and their status (CON-19): components register at their start, the API reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Api;
use crate::controller_status::{ControllerProbe, ControllerState, ControllerStatus, ProbeName, ProbeSource};

/// Controllers by name; those that do not run have a name only.
#[derive(Default)]
pub(crate) struct Probes {
    // Locked for single map operations only, never while a probe is called.
    single: Mutex<BTreeMap<ProbeName, Option<Weak<dyn ControllerProbe>>>>,
    // Locked only to copy the list, never while a source is called.
    sources: Mutex<Vec<Weak<dyn ProbeSource>>>,
}

impl Probes {
    fn sources(&self) -> Vec<Arc<dyn ProbeSource>> {
        self.sources.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Api {
    /// Registers the names of controllers, running or not.
    pub fn expect_controllers(&self, names: impl IntoIterator<Item = &'static str>) {
        let mut probes = self.inner.probes.single.lock();
        for name in names {
            probes.entry(name.into()).or_default();
        }
    }

    /// Registers a running controller; it counts as running while the caller holds the probe.
    pub fn controller_runs(&self, name: &'static str, probe: &Arc<dyn ControllerProbe>) {
        self.inner.probes.single.lock().insert(name.into(), Some(Arc::downgrade(probe)));
    }

    /// Registers a source of probes, for as long as the caller holds it.
    pub fn add_controllers(&self, source: &Arc<dyn ProbeSource>) {
        let mut sources = self.inner.probes.sources.lock();
        sources.retain(|known| known.strong_count() > 0);
        sources.push(Arc::downgrade(source));
    }

    /// Controllers with a probe of their own, by name; `None` for one that does not run.
    pub fn controllers(&self) -> Vec<(ProbeName, Option<Arc<dyn ControllerProbe>>)> {
        let probes = self.inner.probes.single.lock();
        probes.iter().map(|(name, probe)| (name.clone(), probe.as_ref().and_then(Weak::upgrade))).collect()
    }

    /// Returns the present status of all controllers, by name; `None` for one that does not run.
    pub fn controller_statuses(&self) -> BTreeMap<ProbeName, Option<ControllerStatus>> {
        let single =
            self.controllers().into_iter().map(|(name, probe)| (name, probe.map(|one| one.status())));
        let mut all = BTreeMap::new();
        for source in self.inner.probes.sources() {
            for (name, status) in source.statuses() {
                // A source may know the name of a controller that another source runs.
                let known: &mut Option<ControllerStatus> = all.entry(name).or_default();
                *known = known.take().or(status);
            }
        }
        all.extend(single);
        // A stopped controller is reported by name only.
        for status in all.values_mut() {
            *status = status.take().filter(|status| status.state != ControllerState::Stopped);
        }
        all
    }

    /// Returns the controller of this name: `None` if there is none, `Some(None)` if it does not run.
    pub fn controller(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>> {
        if let Some(probe) = self.inner.probes.single.lock().get(name) {
            return Some(probe.as_ref().and_then(Weak::upgrade));
        }
        let found = self.inner.probes.sources().into_iter().filter_map(|source| source.find(name));
        found.reduce(Option::or)
    }
}
