//! What the tests of power failures and failing disks are made of.

pub(crate) mod calls;
pub(crate) mod faults;
pub(crate) mod model;
pub(crate) mod power_cuts;
pub(crate) mod recorded_run;
pub(crate) mod shim;
