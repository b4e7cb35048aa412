//! What people report of proxies like this one, one module for each kind; the number in a test's name is the report's.

mod arguments;
mod encoding;
mod framing;
mod ids;
mod keychain;
mod life_cycle;
mod logging;
mod names;
mod notifications;
mod rate;
mod schemas;
mod spawning;
