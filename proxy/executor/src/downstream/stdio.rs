//! Our own standard input and output as streams that never block the one thread and never hop through another.
//! Pipes and sockets are polled; anything else (a file, a terminal) falls back to tokio's blocking streams.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// Where a client's messages come from.
pub type Input = Box<dyn AsyncRead + Unpin + Send>;
/// Where messages to a client go.
pub type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// Both standard streams. Dropping `restore` puts back the file status flags other holders of the same pipes rely on.
pub struct Stdio {
    /// Standard input.
    pub input: Input,
    /// Standard output.
    pub output: Output,
    /// Undoes the switch to non-blocking mode.
    pub restore: Restore,
}

/// Opens the standard streams; must be called inside the runtime.
///
/// # Errors
/// The streams are closed or cannot be duplicated.
pub fn open() -> io::Result<Stdio> {
    system::open()
}

pub use system::Restore;

#[cfg(unix)]
mod system {
    use super::{AsyncRead, AsyncWrite, Input, Output, Stdio, io};
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::os::unix::net::UnixStream as StdStream;
    use tokio::net::{UnixStream, unix::pipe};

    /// The flags both streams had.
    #[derive(Debug)]
    pub struct Restore(Vec<(OwnedFd, OFlags)>);

    impl Drop for Restore {
        fn drop(&mut self) {
            for (fd, flags) in &self.0 {
                let _ = fcntl_setfl(fd, *flags);
            }
        }
    }

    pub(super) fn open() -> io::Result<Stdio> {
        let mut restore = Restore(Vec::new());
        let input = stream(rustix::stdio::stdin(), &mut restore)?;
        let output = stream(rustix::stdio::stdout(), &mut restore)?;
        let input: Input = match input {
            Stream::Socket(socket) => Box::new(socket),
            Stream::Pipe(fd) => boxed_input(pipe::Receiver::from_owned_fd(fd)?),
            Stream::Other => boxed_input(tokio::io::stdin()),
        };
        let output: Output = match output {
            Stream::Socket(socket) => Box::new(socket),
            Stream::Pipe(fd) => boxed_output(pipe::Sender::from_owned_fd(fd)?),
            Stream::Other => boxed_output(tokio::io::stdout()),
        };
        Ok(Stdio {
            input,
            output,
            restore,
        })
    }

    enum Stream {
        Socket(UnixStream),
        Pipe(OwnedFd),
        Other,
    }

    fn stream(fd: BorrowedFd<'static>, restore: &mut Restore) -> io::Result<Stream> {
        let kind = FileType::from_raw_mode(fstat(fd)?.st_mode);
        if !matches!(kind, FileType::Socket | FileType::Fifo) {
            return Ok(Stream::Other);
        }
        let ours = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        restore
            .0
            .push((rustix::io::fcntl_dupfd_cloexec(fd, 3)?, fcntl_getfl(fd)?));
        if kind == FileType::Fifo {
            return Ok(Stream::Pipe(ours));
        }
        let socket = StdStream::from(ours);
        socket.set_nonblocking(true)?;
        Ok(Stream::Socket(UnixStream::from_std(socket)?))
    }

    fn boxed_input(input: impl AsyncRead + Unpin + Send + 'static) -> Input {
        Box::new(input)
    }

    fn boxed_output(output: impl AsyncWrite + Unpin + Send + 'static) -> Output {
        Box::new(output)
    }
}

#[cfg(not(unix))]
mod system {
    use super::{Stdio, io};

    /// Nothing to undo.
    #[derive(Debug)]
    pub struct Restore;

    pub(super) fn open() -> io::Result<Stdio> {
        Ok(Stdio {
            input: Box::new(tokio::io::stdin()),
            output: Box::new(tokio::io::stdout()),
            restore: Restore,
        })
    }
}
