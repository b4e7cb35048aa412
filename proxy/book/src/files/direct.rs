//! Writes past the page cache: when the call returns, the bytes are with the device, and any later flush of that device
//! makes them durable. Refuses files for which the system does not promise this.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::write_at;

/// Alignment of the memory handed over; the largest any device asks for.
const PAGE: usize = 4096;
/// A buffer longer than this is given back after the write.
const KEPT: usize = 1 << 20;

/// A file opened for such writes.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    align: u64,
    buffer: Vec<u8>,
}

impl Direct {
    /// Opens `path`, which `file` has open too. Nothing where this is not known to hold: another system or file system than
    /// ext4, a kernel before 6.1, and files whose writes take another way to the disk (encrypted, verity, data in the
    /// file system's journal).
    pub(crate) fn open(path: &Path, file: &File) -> Option<Self> {
        let (align, flags) = support(file)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        #[cfg(not(unix))]
        let _ = flags;
        let direct = options.open(path).ok()?;
        let same = super::same_file(&direct.metadata().ok()?, &file.metadata().ok()?);
        same.then_some(Self {
            file: direct,
            align,
            buffer: Vec::new(),
        })
    }

    /// Offsets must be multiples of this, in bytes.
    pub(crate) fn align(&self) -> u64 {
        self.align
    }

    /// Writes `bytes`, and zeros up to the next multiple of the alignment, at `offset`. A short write is an error.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len().next_multiple_of(self.align as usize);
        self.buffer.clear();
        self.buffer.resize(length + PAGE, 0);
        let start = self.buffer.as_ptr().align_offset(PAGE);
        let Some(aligned) = self.buffer.get_mut(start..start + length) else {
            return Err(io::Error::other("no aligned memory"));
        };
        aligned[..bytes.len()].copy_from_slice(bytes);
        let result = write_at(&self.file, offset, aligned);
        if self.buffer.len() > KEPT {
            self.buffer = Vec::new();
        }
        result
    }
}

/// The alignment and the flags to open with, where direct writes over written blocks reach the device and change nothing else.
#[cfg(target_os = "linux")]
fn support(file: &File) -> Option<(u64, i32)> {
    use rustix::fs::{AtFlags, OFlags, StatxFlags, fstatfs, statx};

    const EXT4: u64 = 0xEF53;
    if u64::try_from(fstatfs(file).ok()?.f_type).ok()? != EXT4 {
        return None;
    }
    // Nought where the system would take the way through the cache after all.
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let (memory, align) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
    let fits = |n: u32| n.is_power_of_two() && n as usize <= PAGE;
    (told && fits(memory) && fits(align)).then_some(())?;
    let flags = OFlags::DIRECT | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    // Not below a sector: what one batch writes shares none with another's.
    Some((u64::from(align).max(512), i32::try_from(flags.bits()).ok()?))
}

#[cfg(not(target_os = "linux"))]
fn support(_file: &File) -> Option<(u64, i32)> {
    None
}
