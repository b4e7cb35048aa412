//! The binary. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign::platform::keep_memory_private();
    // The guardian of a proxy's children is this program too: it needs no folder, no settings and as little memory as can be.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == countersign::commands::run::GUARD)
    {
        countersign::platform::guard();
        return ExitCode::SUCCESS;
    }
    countersign::cli::main(std::env::args_os())
}
