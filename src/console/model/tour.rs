//! The tour in the model: start, suspension, resumption, and the check after each message.

use jiff::Timestamp;

use super::Model;
use crate::tour::{Tour, TourStep, sample_app, subject};
use console_data::scope::Scope;
use console_operations::effect::{Effect, TourCommand};
use console_toolkit::toast::Toast;

impl Model {
    /// Returns the effects of `:tour`; an error says why it is not possible.
    pub(crate) fn tour_effects(&self, arguments: &[&str]) -> Result<Vec<Effect>, String> {
        match arguments {
            ["stop"] if self.tour.is_none() => Err("no tour is running".into()),
            ["stop"] => Ok(vec![Effect::Tour(TourCommand::Stop)]),
            [] if self.shared.read_only => Err("read-only: the tour changes the cluster".into()),
            [] => {
                let mut effects = Vec::new();
                let stores = &self.shared.cluster.stores;
                let is_missing =
                    stores.deployments().synced() && subject(stores, &self.shared.scope).is_none();
                let running = self.tour.as_ref().filter(|tour| !tour.suspended);
                let needs_sample = running.is_some_and(|tour| tour.step == TourStep::Sample) && is_missing;
                // A tour that waits for the sample offers it again instead of pausing.
                if !needs_sample {
                    effects.push(Effect::Tour(TourCommand::Toggle));
                }
                let begins = running.is_none_or(|tour| tour.step == TourStep::Over);
                if needs_sample || begins && is_missing {
                    let namespace = match &self.shared.scope {
                        Scope::One(name) => name.as_str(),
                        Scope::All => "default",
                    };
                    let dialog = sample_app::dialog(&self.shared.cluster.catalogue, namespace)?;
                    effects.push(Effect::dialog(dialog));
                }
                Ok(effects)
            }
            _ => Err("use :tour or :tour stop".into()),
        }
    }

    pub(super) fn tour(&mut self, command: TourCommand, now: Timestamp) {
        let is_over = self.tour.as_ref().is_some_and(|tour| tour.step == TourStep::Over && !tour.suspended);
        match (&mut self.tour, command) {
            (tour, TourCommand::Stop) => *tour = None,
            (tour, TourCommand::Toggle) if is_over => *tour = None,
            (Some(tour), TourCommand::Toggle) => {
                tour.suspended = !tour.suspended;
                if tour.suspended {
                    self.toast(Toast::info("the tour is paused; :tour resumes it, :tour stop ends it"), now);
                }
            }
            (tour, TourCommand::Toggle) => *tour = Some(Tour::new(&self.shared.cluster.journal)),
        }
    }

    /// Checks whether the present step was done. A suspended tour checks when it is resumed.
    pub(super) fn advance_tour(&mut self) {
        let Some(tour) = self.tour.as_mut().filter(|tour| !tour.suspended) else { return };
        let shared = &self.shared;
        self.dirty |= tour.advance(&shared.cluster.stores, &shared.cluster.journal, &shared.scope);
    }
}
