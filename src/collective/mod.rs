//! Collective algorithms: closed form and schedule of transfers.
