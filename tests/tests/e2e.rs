//! All end-to-end tests in one program: the real binary, real servers, real clients.

mod acts;
mod bounds;
mod cases;
mod checklist;
mod cli;
mod clients;
mod closing;
mod conformance;
mod dumps;
mod faults;
mod judges;
mod kill;
mod lists;
mod peers;
mod presets;
mod record;
mod relay;
mod repository;
mod smuggling;
mod stalled;
mod strangers;
mod trying;
