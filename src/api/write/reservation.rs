//! What a write takes of what there is only so much of: quota, service addresses, node ports.

use crate::addresses::Allocation;
use crate::quota::Charge;
use crate::{Api, ApiError, Part, admission};
use object::Object;

/// What was taken for a write under way. Dropped without [`Reservation::commit`], all of it is given back.
pub(super) struct Reservation<'a> {
    api: &'a Api,
    former: Option<&'a Object>,
    charge: Option<Charge<'a>>,
    taken: Allocation,
}

impl<'a> Reservation<'a> {
    /// Takes what the write needs, and writes addresses and ports into the object. A dry run looks only.
    pub(super) fn take(
        api: &'a Api,
        part: Part,
        former: Option<&'a Object>,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<Self, ApiError> {
        let charge = admission::charge(api, part, former, object, dry_run)?;
        let taken = api.take_addresses(former, object, dry_run)?;
        Ok(Self { api, former, charge: Some(charge), taken })
    }

    /// The write is made: what was taken is used, and what the former version held and this one does not is free.
    pub(super) fn commit(mut self, stored: &Object) {
        if let Some(charge) = self.charge.take() {
            charge.keep();
        }
        self.taken = Allocation::default();
        if let Some(former) = self.former {
            self.api.give_addresses_back(former, Some(stored));
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.api.give_back(&self.taken);
    }
}
