//! The limited resources that a write takes: quota, service addresses, node ports.

use crate::addresses::Allocation;
use crate::quota::Charge;
use crate::{Api, ApiError, Part, admission};
use object::Object;

/// The reservation of a write in progress. If it is dropped without [`Reservation::commit`], all of it is
/// released.
pub(super) struct Reservation<'a> {
    api: &'a Api,
    former: Option<&'a Object>,
    charge: Option<Charge<'a>>,
    allocated: Allocation,
}

impl<'a> Reservation<'a> {
    /// Reserves the needs of the write, and sets addresses and ports in the object. A dry run only checks.
    pub(super) fn take(
        api: &'a Api,
        part: Part,
        former: Option<&'a Object>,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<Self, ApiError> {
        let charge = admission::charge(api, part, former, object, dry_run)?;
        let taken = api.allocate_service_resources(former, object, dry_run)?;
        Ok(Self { api, former, charge: Some(charge), allocated: taken })
    }

    /// Makes the reservation final, and releases resources of the former version that this one does not use.
    pub(super) fn commit(mut self, stored: &Object) {
        if let Some(charge) = self.charge.take() {
            charge.keep();
        }
        self.allocated = Allocation::default();
        if let Some(former) = self.former {
            self.api.release_unused_addresses(former, Some(stored));
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.api.release_allocation(&self.allocated);
    }
}
