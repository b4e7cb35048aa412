//! All end-to-end tests in one program: the real binary, real servers, real clients.

mod cases;
mod lists;
mod peers;
mod smuggling;
