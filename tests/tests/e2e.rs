//! All end-to-end tests in one program: the real binary, real servers, real clients.
