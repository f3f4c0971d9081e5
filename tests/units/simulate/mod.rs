//! Parts of `simulate`, one module a file of it.

mod behaviour;
mod jump;
mod page_run;
mod settings;
