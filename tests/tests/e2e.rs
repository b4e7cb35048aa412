//! All end-to-end tests in one program: the real binary, real servers, real clients.

mod cases;
mod cli;
mod clients;
mod closing;
mod conformance;
mod kill;
mod lists;
mod peers;
mod record;
mod relay;
mod repository;
mod smuggling;
mod trying;
